//! What holds for every file: writing and reading are inverse, and no text makes a reader panic.

use arbtest::arbitrary::{self, Unstructured};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::num::{NonZeroU8, NonZeroU16};
use std::str::FromStr;
use tg_jobfile::{
    Accelerator, Checkpoint, Cpus, Deadline, GpuShare, JobFile, KeyEscrow, Model, ModelSource,
    Priority, Public, Resources, Run, Service, Size, Span, Task, Verify, Work, import,
};
use tg_types::{Amount, DurationMs, Features, Tick};

type Draw<'a, 'b> = &'a mut Unstructured<'b>;

/// A value read from random text, or from one of a few texts that are hard to write.
fn word<T: FromStr<Err: Debug>>(u: Draw<'_, '_>, plain: &str) -> arbitrary::Result<T> {
    let hard =
        ["null", "true", "1", "-c", "a: b", "a #b", " a", "é\u{2028}", "a\nb\n", "\\\"'", ""];
    let text: String = match u.int_in_range(0..=3)? {
        0 => u.arbitrary()?,
        1 => format!("{plain}{}", u.choose(&hard)?),
        2 => (*u.choose(&hard)?).to_owned(),
        _ => plain.to_owned(),
    };
    Ok(text.parse().unwrap_or_else(|_| plain.parse().expect("a plain word")))
}

fn maybe<'b, T>(
    u: Draw<'_, 'b>,
    draw: impl FnOnce(&mut Unstructured<'b>) -> arbitrary::Result<T>,
) -> arbitrary::Result<Option<T>> {
    if u.arbitrary()? { draw(u).map(Some) } else { Ok(None) }
}

fn pairs<K: FromStr<Err: Debug> + Ord, V: FromStr<Err: Debug>>(
    u: Draw<'_, '_>,
    (key, value): (&str, &str),
) -> arbitrary::Result<BTreeMap<K, V>> {
    let mut pairs = BTreeMap::new();
    for _ in 0..u.int_in_range(0..=3)? {
        pairs.insert(word(u, key)?, word(u, value)?);
    }
    Ok(pairs)
}

fn size(u: Draw<'_, '_>) -> arbitrary::Result<Size> {
    Ok(Size::new(u.int_in_range(1..=Size::MAX.bytes())?).expect("in range"))
}

fn span(u: Draw<'_, '_>) -> arbitrary::Result<Span> {
    let millis = u.int_in_range(1..=Span::MAX.get().get())?;
    Ok(Span::new(DurationMs::new(millis)).expect("in range"))
}

fn resources(u: Draw<'_, '_>, depth: usize) -> arbitrary::Result<Resources> {
    let mut accelerators: Vec<Accelerator> = Vec::new();
    for _ in 0..u.int_in_range(0..=3)? {
        let one = Accelerator::new(word(u, "RTX 4090")?, u.arbitrary()?);
        accelerators.extend(one.filter(|one| !accelerators.contains(one)));
    }
    let mut features = Features::NONE;
    for (feature, _) in Features::ALL {
        features = if u.arbitrary()? { features.with(feature) } else { features };
    }
    let cpus = |u: Draw<'_, '_>| {
        let thousandths = u.int_in_range(1..=Cpus::MAX.thousandths())?;
        Ok(Cpus::from_thousandths(thousandths).expect("in range"))
    };
    let mut any_of = Vec::new();
    for _ in 0..u.int_in_range(0..=2 * depth)? {
        any_of.push(resources(u, 0)?);
    }
    Ok(Resources {
        accelerators,
        gpu_memory: maybe(u, |u| size(u))?,
        gpu_share: maybe(
            u,
            |u| Ok(GpuShare::from_steps(u.int_in_range(1..=19)?).expect("a part")),
        )?,
        share_with_strangers: u.arbitrary()?,
        memory: maybe(u, |u| size(u))?,
        cpus: maybe(u, |u| cpus(u))?,
        disk: maybe(u, |u| size(u))?,
        region: maybe(u, |u| word(u, "eu"))?,
        home: maybe(u, |u| word(u, "eu-de"))?,
        features,
        use_spot: u.arbitrary()?,
        any_of,
    })
}

fn task(u: Draw<'_, '_>) -> arbitrary::Result<Task> {
    let image = maybe(u, |u| word(u, "alpine:3"))?;
    let run = match u.int_in_range(0..=2)? {
        0 if image.is_some() => None,
        1 => {
            let mut arguments = Vec::new();
            for _ in 0..u.int_in_range(0..=3)? {
                arguments.push(word(u, "-x")?);
            }
            Some(Run::Program { program: word(u, "sh")?, arguments })
        }
        _ => Some(Run::Shell(word(u, "echo a\n  b\n\nc")?)),
    };
    let mut secrets = BTreeSet::new();
    for _ in 0..u.int_in_range(0..=2)? {
        secrets.insert(word(u, "TOKEN")?);
    }
    Ok(Task {
        image,
        setup: maybe(u, |u| word(u, "pip install x\n"))?,
        run,
        envs: pairs(u, ("A", "b"))?,
        secrets,
        file_mounts: pairs(u, ("/data", "./data"))?,
        inputs: pairs(u, ("a.npy", "./a.npy"))?,
        outputs: pairs(u, ("out/b", "./b"))?,
        network: u.arbitrary()?,
    })
}

fn job(u: Draw<'_, '_>) -> arbitrary::Result<JobFile> {
    let work = match u.int_in_range(0..=2)? {
        0 => Work::Model(Model {
            source: match u.int_in_range(0..=2)? {
                0 => ModelSource::Model(word(u, "./a.onnx")?),
                1 => ModelSource::Float(word(u, "./a.onnx")?),
                _ => ModelSource::Program(word(u, "./a.tgp")?),
            },
            inputs: pairs(u, ("x:0", "./x.npy"))?,
            outputs: pairs(u, ("/y", "./y.npy"))?,
        }),
        _ => Work::Task(task(u)?),
    };
    let service = |u: Draw<'_, '_>| {
        Ok(Service {
            port: u.arbitrary::<NonZeroU16>()?,
            readiness_probe: maybe(u, |u| word(u, "/health"))?,
            replicas: u.arbitrary::<Option<NonZeroU8>>()?,
        })
    };
    let checkpoint =
        |u: Draw<'_, '_>| Ok(Checkpoint { path: word(u, "/ckpt")?, every: maybe(u, |u| span(u))? });
    let modes = [
        Verify::None,
        Verify::Audit,
        Verify::Sync,
        Verify::Redundant { replicas: 2 },
        Verify::Redundant { replicas: 4 },
        Verify::Optimistic,
        Verify::Proof,
        Verify::Zk,
        Verify::Tee,
    ];
    let escrows = [KeyEscrow::Validators, KeyEscrow::None];
    let deadline = |u: Draw<'_, '_>| {
        let tick = Tick::new(u.int_in_range(0..=Deadline::MAX.get().get())?);
        Ok(Deadline::new(tick).expect("in range"))
    };
    let priority = |u: Draw<'_, '_>| {
        let number = u.int_in_range(0..=Priority::MAX.get())?;
        Ok(Priority::new(number).expect("in range"))
    };
    Ok(JobFile {
        name: maybe(u, |u| word(u, "digits"))?,
        work,
        resources: resources(u, 1)?,
        num_nodes: u.arbitrary()?,
        service: maybe(u, |u| service(u))?,
        checkpoint: maybe(u, |u| checkpoint(u))?,
        budget_max: maybe(u, |u| Ok(Amount::constant(u.int_in_range(0..=Amount::CAP.units())?)))?,
        verify: maybe(u, |u| u.choose(&modes).copied())?,
        key_escrow: maybe(u, |u| u.choose(&escrows).copied())?,
        public: maybe(u, |u| u.choose(&[Public::Data, Public::All]).copied())?,
        run_max: maybe(u, |u| span(u))?,
        deadline: maybe(u, |u| deadline(u))?,
        secret_weights: u.arbitrary()?,
        promise: u.arbitrary()?,
        priority: maybe(u, |u| priority(u))?,
    })
}

#[test]
fn prop_what_is_written_reads_back() {
    arbtest::arbtest(|u| {
        let job = job(u)?;
        let yaml = job.to_yaml();
        let again =
            JobFile::parse(&yaml, "again").unwrap_or_else(|error| panic!("{error}\n{yaml}"));
        assert_eq!(again, job, "{yaml}");
        assert_eq!(again.to_yaml(), yaml);
        let _any = (job.unsupported(), job.needs());
        Ok(())
    });
}

/// Reads a text as everything; what is read must also read back.
fn read_all(text: &str) {
    if let Ok(job) = JobFile::parse(text, "any") {
        assert_eq!(JobFile::parse(&job.to_yaml(), "again").as_ref(), Ok(&job));
    }
    for importer in [import::sdl, import::compose, import::slurm] {
        if let Ok(imported) = importer(text, "any") {
            let yaml = imported.file.to_yaml();
            let again = JobFile::parse(&yaml, "again");
            assert_eq!(again.as_ref(), Ok(&imported.file), "{text}\n{yaml}");
            let lines = text.lines().count().max(1);
            assert!(imported.notes.iter().all(|note| (1..=lines).contains(&note.line)));
        }
    }
}

#[test]
fn prop_random_bytes_are_read_or_refused() {
    arbtest::arbtest(|u| {
        let bytes: Vec<u8> = u.arbitrary()?;
        read_all(&String::from_utf8_lossy(&bytes));
        Ok(())
    });
}

/// Goal: no file near a good one makes a reader panic. Method: good files are cut, and pieces that
/// mean something to YAML or to the shell are put in and taken out at random places.
#[test]
fn prop_damaged_files_are_read_or_refused() {
    const PIECES: [&str; 24] = [
        ":", "-", "[", "]", "{", "}", "\"", "'", "|", ">", "&a", "*a", "!", "%", "#", "\n", "\t",
        " ", "? ", "---\n", "\r\n", "\u{feff}", "\0", "@",
    ];
    let sources = [
        include_str!("../fixtures/llama.sdl.yaml"),
        include_str!("../fixtures/whisper.compose.yaml"),
        include_str!("../fixtures/resnet.sbatch"),
    ];
    arbtest::arbtest(|u| {
        let good = match u.int_in_range(0..=3_usize)? {
            3 => job(u)?.to_yaml(),
            index => sources[index].to_owned(),
        };
        let mut letters: Vec<char> = good.chars().collect();
        for _ in 0..u.int_in_range(1..=6)? {
            let at = u.int_in_range(0..=letters.len())?;
            match u.int_in_range(0..=2)? {
                0 => letters.truncate(at),
                1 => {
                    let end = letters.len().min(at + u.int_in_range(0..=9_usize)?);
                    letters.drain(at..end);
                }
                _ => {
                    let piece = u.choose(&PIECES)?;
                    letters.splice(at..at, piece.chars());
                }
            }
        }
        read_all(&letters.into_iter().collect::<String>());
        Ok(())
    });
}

#[test]
fn oversized_files_are_refused() {
    let large = format!("run: a\n#{}", "x".repeat(tg_jobfile::BYTES_MAX));
    for refused in [
        JobFile::parse(&large, "large").err(),
        import::sdl(&large, "large").err(),
        import::compose(&large, "large").err(),
        import::slurm(&large, "large").err(),
    ] {
        let error = refused.expect("refused").to_string();
        assert!(error.contains("at most 262144"), "{error}");
    }
}

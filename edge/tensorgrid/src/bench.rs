//! Measuring a chain: four validators in this process, everything else as in real life.

mod draws;
mod histogram;
pub(crate) mod jct;
pub(crate) mod jobs;
pub(crate) mod learning;
mod ledger;
mod load;
pub(crate) mod mig;
pub(crate) mod packing;
mod process;
pub(crate) mod proof;
mod record;
pub(crate) mod sched;
mod supply;
mod tally;
pub(crate) mod tensor;

use crate::{
    args::{Grant, NamedAddress},
    commands,
    failure::{Exit, Failure, OrFail as _},
    files::{self, TemporaryFolder},
    folder::NodeFolder,
    network,
    node::{self, RunningNode},
    printer::{Printer, lines},
    settings::BenchSettings,
};
use load::{Pace, Worker};
use process::Memory;
use serde::Serialize;
use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use supply::{Senders, Supply};
use tally::{Counts, Tally};
use tg_api::Client;
use tg_types::{Height, NetworkKind, Params};

/// What the help says about `bench chain`.
pub(crate) const LONG_ABOUT: &str = "\
Measure a chain of four validators in this process

Every validator has its own disk folder, network connections and ledger and checks every \
signature itself. Transfers are signed beforehand and offered through the first validator's HTTP \
interface over four connections, in batches.

1. apply_tx_per_s: the ledger alone, in memory, one core, blocks of 1000 transfers.
   calib_verify_per_s: ed25519 signatures in batches, one core.
2. Saturation, --secs long: as many transfers as the network takes. tx_per_s_finalised counts \
those that became final, the first second left out.
3. Steady, --secs long: half of that rate, whatever the answers. finality_ms_p50 and p99 are over \
all accepted transfers, from sending the request to final and on disk.
4. With --offered: that many per second for --secs; refused ones are offered again later.

rss_mb is the peak of the whole process, signed transfers included (presigned_mb). cert_bytes is \
threshold signature, height and header digest. disk_mb_per_million_tx is per validator.";

/// Most transactions in a block of a measured chain: as on any local network.
pub(crate) const BLOCK_TX_MAX: u32 = Params::local().block_tx_max;

/// Validators of the measured chain.
const VALIDATORS: u16 = 4;

/// The steady rate as a share of what the network takes at most.
const STEADY_PERCENT: u32 = 50;

/// How far bursts lift a limited rate: an idle second before a phase counts for it.
const BURST: f64 = 1.5;

/// Start of the saturation that is left out while queues fill.
const WARM_UP: Duration = Duration::from_secs(1);

/// How long accepted transfers may take to become final after a phase.
const SETTLE: Duration = Duration::from_secs(30);

/// How long the first block may take.
const FIRST_BLOCK: Duration = Duration::from_secs(60);

/// Signed transfers at most: 250 MB.
const SUPPLY_MAX: u64 = 1_500_000;

/// Height and header digest, which the threshold signature signs.
const SIGNED_BYTES: usize = 8 + 32;

const HINT: &str = "is the machine overloaded or the disk full? TENSORGRID_LOG=info says more";

/// What was measured.
#[derive(Serialize)]
struct Report {
    tx_per_s_finalised: f64,
    finality_ms_p50: Option<f64>,
    finality_ms_p99: Option<f64>,
    apply_tx_per_s: f64,
    calib_verify_per_s: f64,
    rss_mb: u64,
    cert_bytes: usize,
    disk_mb_per_million_tx: f64,
    secs: f64,
    validators: u16,
    cores: usize,
    accounts: u32,
    block_tx_max: u32,
    presigned_mb: u64,
    saturation: Phase,
    steady: Phase,
    #[serde(skip_serializing_if = "Option::is_none")]
    overload: Option<Phase>,
}

/// What happened in one phase.
#[derive(Serialize)]
struct Phase {
    offered_per_s: Option<u32>,
    tx_per_s_finalised: f64,
    accepted: u64,
    refused: u64,
    lost: u64,
    finality_ms_p50: Option<f64>,
    finality_ms_p99: Option<f64>,
    rss_mb: u64,
}

/// `bench chain`
///
/// # Errors
/// If the network does not come up or the load loses it.
pub(crate) fn run(settings: &BenchSettings, printer: &Printer) -> Result<Exit, Failure> {
    let started = Instant::now();
    let progress = printer.progress("making the network");
    printer.say("Measuring a chain of four validators; this takes about a minute.");
    let folder = TemporaryFolder::new().or_fail("no temporary folder", "make room on the disk")?;
    let senders = Senders::new(settings.accounts);
    let seats = make(folder.path(), settings, &senders)?;
    let first = seats.first().ok_or_else(|| Failure::new("there is no seat", HINT))?;
    progress.set("measuring ledger and signatures alone");
    let rules = ledger::rules(first).or_fail("the ledger was not measured", HINT)?;
    let apply =
        ledger::apply_per_s(&rules, &senders).or_fail("the ledger was not measured", HINT)?;
    let domain = first.genesis.domain();
    let verify = ledger::verify_per_s(&senders, &domain);
    progress.set("signing transfers");
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let count = supply_count(settings, verify, cores);
    let expires = Height::new(first.genesis.params().expiry_heights_max);
    let supply = Arc::new(senders.sign(count, &domain, expires));

    progress.set("starting the validators");
    let nodes = commands::start_nodes(&seats)?;
    let outcome = measure(settings, &nodes, &supply, folder.path(), &progress);
    node::stop_all(nodes);
    let Measured { saturation, steady, overload, cert_bytes, disk_mb_per_million_tx } = outcome?;
    drop(progress);
    let report = Report {
        tx_per_s_finalised: saturation.tx_per_s_finalised,
        finality_ms_p50: steady.finality_ms_p50,
        finality_ms_p99: steady.finality_ms_p99,
        apply_tx_per_s: apply.round(),
        calib_verify_per_s: verify.round(),
        rss_mb: Memory::read().peak_mib,
        cert_bytes,
        disk_mb_per_million_tx,
        secs: tenth(started.elapsed().as_secs_f64()),
        validators: VALIDATORS,
        cores,
        accounts: settings.accounts,
        block_tx_max: settings.block_tx_max,
        presigned_mb: u64::try_from(supply.bytes() >> 20).unwrap_or(0),
        saturation,
        steady,
        overload,
    };
    printer.result(&report, || report_text(&report));
    Ok(Exit::Done)
}

fn make(
    path: &Path,
    settings: &BenchSettings,
    senders: &Senders,
) -> Result<Vec<NodeFolder>, Failure> {
    let usual = Params::local();
    let params = Params {
        block_tx_max: settings.block_tx_max,
        tx_per_second_max: settings.tx_per_second_max.unwrap_or(usual.tx_per_second_max),
        expiry_heights_max: 1_000_000, // signed beforehand, so they must not expire on the way
        ..usual
    };
    params.check().or_fail("these parameters cannot be used", "see `bench chain --help`")?;
    make_network(path, params, &senders.grants())
}

/// Makes a network of validators for a measurement.
pub(crate) fn make_network(
    path: &Path,
    params: Params,
    grants: &[Grant],
) -> Result<Vec<NodeFolder>, Failure> {
    let named = |number: u16| NamedAddress {
        name: format!("validator-{number}"),
        address: format!("127.0.0.1:{number}").parse().expect("an address"),
    };
    let seats: Vec<NamedAddress> = (1..=VALIDATORS).map(named).collect();
    let draft = network::Draft {
        chain: "bench".parse().expect("a chain's name"),
        kind: NetworkKind::Local,
        params,
        seats: &seats,
        followers: &[],
        grants,
    };
    network::make(path, &draft).or_fail("the network was not made", HINT)?;
    let open = |seat: &NamedAddress| NodeFolder::open(&path.join(&seat.name));
    let folders: Result<Vec<NodeFolder>, _> = seats.iter().map(open).collect();
    folders.or_fail("the network cannot be opened", HINT)
}

/// How many transfers suffice: no network finalises more than its cores can verify.
fn supply_count(settings: &BenchSettings, verify_per_s: f64, cores: usize) -> usize {
    let cores = f64::from(u32::try_from(cores).unwrap_or(u32::MAX));
    let most = verify_per_s * cores / f64::from(VALIDATORS);
    let limit = settings.tx_per_second_max.map_or(most, |limit| most.min(BURST * f64::from(limit)));
    let steady = f64::from(STEADY_PERCENT) / 100.0;
    let extra = if settings.offered.is_some() { 1.0 } else { 0.0 };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rough count")]
    let per_s = (limit * (1.0 + steady + extra)).ceil() as u64;
    let count = per_s.saturating_mul(settings.secs).min(SUPPLY_MAX);
    // All senders have the same number, and one more for those whose turn it is.
    let rounds = count.div_ceil(settings.accounts.into()).saturating_add(1);
    usize::try_from(rounds.saturating_mul(settings.accounts.into())).unwrap_or(usize::MAX)
}

struct Measured {
    saturation: Phase,
    steady: Phase,
    overload: Option<Phase>,
    cert_bytes: usize,
    disk_mb_per_million_tx: f64,
}

fn measure(
    settings: &BenchSettings,
    nodes: &[RunningNode],
    supply: &Arc<Supply>,
    folder: &Path,
    progress: &crate::printer::Progress,
) -> Result<Measured, Failure> {
    let first = nodes.first().ok_or_else(|| Failure::new("there is no validator", HINT))?;
    let api = first.serve(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), None);
    let api = api.or_fail("clients cannot be answered", HINT)?;
    wait_for_first_block(first)?;
    let mut client =
        Client::new(&api.address().to_string()).or_fail("clients cannot be answered", HINT)?;
    let tally = Tally::start(first.chain()).or_fail("no thread for counting", HINT)?;
    let senders = usize::try_from(settings.accounts).unwrap_or(usize::MAX);
    let mut workers = load::workers(&client, supply, senders, &tally);
    let span = Duration::from_secs(settings.secs);
    let disk_before = files::folder_bytes(folder);
    let mut phase = |name: &str, pace: Pace| {
        progress.set(format!("measuring: {name}"));
        run_phase(&mut workers, &tally, pace, span)
    };

    let saturation = phase("saturation", Pace::Most)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate")]
    let rate = (saturation.tx_per_s_finalised * f64::from(STEADY_PERCENT) / 100.0) as u32;
    let steady = phase("steady load", Pace::PerSecond(rate.max(1)))?;
    let offered = settings.offered;
    let overload = offered.map(|rate| phase("overload", Pace::PerSecond(rate))).transpose()?;
    let certificate = client.certificate(None).or_fail("there is no certificate", HINT)?;
    let disk = files::folder_bytes(folder).saturating_sub(disk_before);
    let all = [Some(&saturation), Some(&steady), overload.as_ref()];
    let txs: u64 = all.into_iter().flatten().map(|phase| phase.accepted - phase.lost).sum();
    Ok(Measured {
        saturation,
        steady,
        overload,
        cert_bytes: certificate.certificate.0.len() + SIGNED_BYTES,
        disk_mb_per_million_tx: disk_per_million(disk, txs),
    })
}

/// Megabytes per validator and million transactions: bytes per validator and transaction.
fn disk_per_million(bytes: u64, txs: u64) -> f64 {
    let share = bytes / u64::from(VALIDATORS) / txs.max(1);
    f64::from(u32::try_from(share).unwrap_or(u32::MAX))
}

pub(crate) fn wait_for_first_block(node: &RunningNode) -> Result<(), Failure> {
    let started = Instant::now();
    while node.chain().metrics().height.get() == 0 {
        if started.elapsed() > FIRST_BLOCK {
            return Err(Failure::new("no block became final", HINT));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn run_phase(
    workers: &mut [Worker],
    tally: &Tally,
    pace: Pace,
    span: Duration,
) -> Result<Phase, Failure> {
    tally.begin();
    let started = Instant::now();
    load::offer(workers, pace, span).or_fail("the load lost the node", HINT)?;
    let ended = Instant::now();
    let counts: Counts = tally.settle(SETTLE);
    let skipped = if span > 3 * WARM_UP { WARM_UP } else { Duration::ZERO };
    Ok(Phase {
        offered_per_s: match pace {
            Pace::Most => None,
            Pace::PerSecond(rate) => Some(rate),
        },
        tx_per_s_finalised: tenth(counts.rate(started + skipped, ended)),
        accepted: counts.accepted,
        refused: counts.refused,
        lost: counts.accepted - counts.finalised,
        finality_ms_p50: counts.latencies.quantile_ms(50).map(tenth),
        finality_ms_p99: counts.latencies.quantile_ms(99).map(tenth),
        rss_mb: Memory::read().now_mib,
    })
}

fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn report_text(report: &Report) -> String {
    let ms = |value: Option<f64>| value.map_or("none".to_owned(), |ms| format!("{ms:.0} ms"));
    let phase = |phase: &Phase| {
        format!(
            "{:.0} tx/s final, p50 {}, p99 {}, {} accepted, {} refused, {} lost",
            phase.tx_per_s_finalised,
            ms(phase.finality_ms_p50),
            ms(phase.finality_ms_p99),
            phase.accepted,
            phase.refused,
            phase.lost
        )
    };
    let mut rows = vec![
        ("final", format!("{:.0} transfers per second", report.tx_per_s_finalised)),
        ("finality p50", ms(report.finality_ms_p50)),
        ("finality p99", ms(report.finality_ms_p99)),
        ("ledger alone", format!("{:.0} transfers per second", report.apply_tx_per_s)),
        ("signatures alone", format!("{:.0} per second", report.calib_verify_per_s)),
        (
            "memory",
            format!("{} MB, {} of them signed transfers", report.rss_mb, report.presigned_mb),
        ),
        ("certificate", format!("{} bytes", report.cert_bytes)),
        ("disk", format!("{:.0} MB per million transfers", report.disk_mb_per_million_tx)),
        ("saturation", phase(&report.saturation)),
        ("steady", phase(&report.steady)),
    ];
    rows.extend(report.overload.as_ref().map(|overload| ("overload", phase(overload))));
    rows.push(("took", format!("{:.0} s on {} cores", report.secs, report.cores)));
    lines(&rows)
}

//! Offering this machine: what it has is found, offered and looked at again and again; work comes
//! and goes without anybody reaching in from outside.

use crate::{
    args::provide::ProvideArguments,
    failure::{Exit, Failure, OrFail as _},
    printer::{Printer, Tone, lines},
    settings::ProvideSettings,
    stop::StopSignal,
    work::{
        account::{self, AccountKeeper, Draw},
        connect::{Session, Standing},
        machine::{self, GpuChoice, OfferTerms},
        provider::{Leave, Provider, ProviderPlan},
        splitter::MigSplitter,
    },
};
use serde::Serialize;
use std::{
    error::Error as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tg_agent::{
    agent::{Deeds, Splitter},
    task_run::Workshop,
};
use tg_api::text::Text;
use tg_provider::{
    devices::{Catalogue, GivenOut, Severity, findings},
    hours::{Hours, Zone},
    idle::{IdleRules, IdleSampler, IdleWatch, Idleness},
};
use tg_types::{AccountId, Amount, Device, Features, NodeDescriptor, NodeId, Sharing, Tick};

/// How often the wish to stop and the deeds are looked at.
const LOOK: Duration = Duration::from_millis(200);

/// How often devices, hours and idleness are looked at.
const LOOK_AROUND: Duration = Duration::from_secs(2);

const SECONDS_PER_MINUTE: u64 = 60;

#[derive(Serialize)]
struct Ready {
    node: Text<NodeId>,
    account: Text<AccountId>,
    devices: Vec<OfferedDevice>,
    /// Why there are no others.
    absences: Vec<String>,
    warnings: Vec<String>,
    slots: u16,
    open: bool,
}

#[derive(Serialize)]
struct OfferedDevice {
    model: String,
    memory_mib: u32,
    count: u16,
    features: Vec<&'static str>,
    /// How each is given out.
    sharing: String,
}

/// `provide`
pub(super) fn run(settings: ProvideSettings, printer: &Printer) -> Result<Exit, Failure> {
    let ProvideSettings { way, state, arguments } = settings;
    let stop = StopSignal::listen().or_fail("signals cannot be heard", "try again")?;
    let mut watch = Watch::new(&arguments, &state, printer)?;
    let path = account::path(&state, &arguments.name);
    let hint = format!("look at {}, or move it away to begin anew", path.display());
    let keeper = AccountKeeper::open(path, arguments.power_cost);
    let mut keeper = keeper.or_fail("the account of this node cannot be read", hint)?;
    let session = Session::open(&way, arguments.name.as_str(), Standing::Node)?;
    let promises = state.join(format!("promises-{}", arguments.name));
    let served = serve(&session, promises, &arguments, &mut watch, &mut keeper, &stop, printer);
    session.close();
    served
}

/// All that a node does while it is connected.
fn serve(
    session: &Session,
    promises: PathBuf,
    arguments: &ProvideArguments,
    watch: &mut Watch,
    keeper: &mut AccountKeeper,
    stop: &StopSignal,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let what = "this machine cannot offer its services";
    let hint = format!("its account is {}; has it enough money for --stake?", session.account());
    let (descriptor, _) = watch.look(arguments)?;
    let plan = ProviderPlan {
        descriptor: descriptor.clone(),
        gpus: machine::gpu_places(&watch.catalogue, &arguments.gpus),
        splitter: watch.splitter.clone(),
        stake: arguments.stake,
        workshop: watch.workshop.clone(),
        notes: Some(promises),
        cheats: None,
    };
    let key = tg_types::SecretKey::from_seed(*session.key.expose_seed());
    let gateway = Arc::clone(&session.gateway);
    let starting = Provider::start(gateway, key, plan);
    let provider = session.runtime.block_on(starting).or_fail(what, hint)?;
    let ready = ready(session, &provider, &watch.catalogue, &descriptor);
    printer.result(&ready, || ready_text(&ready, printer));
    let mut desk = Desk { session, provider: &provider, printer, keeper };
    let last = desk.work(watch, arguments, descriptor, stop);
    let grace = Duration::from_secs(arguments.grace);
    printer.say(format_args!(
        "No new work: what is saved goes on elsewhere, the rest has {} s to end here. ^C again \
         leaves it to others at once.",
        grace.as_secs()
    ));
    let tell = |waits: &str| printer.say(waits);
    let left = session.runtime.block_on(provider.leave(last, grace, tell));
    match left.or_fail("the node did not leave well", "it counts as absent from now on")? {
        Leave::Left => printer.say("The node has left the network; its stake is still its own."),
        Leave::Busy => printer.say("The node had work left; others will do it."),
    }
    Ok(Exit::Done)
}

/// What the work of a node goes through.
struct Desk<'a> {
    session: &'a Session,
    provider: &'a Provider,
    printer: &'a Printer,
    keeper: &'a mut AccountKeeper,
}

impl Desk<'_> {
    /// Everything between start and stop. Gives the last offer.
    fn work(
        &mut self,
        watch: &mut Watch,
        arguments: &ProvideArguments,
        mut descriptor: NodeDescriptor,
        stop: &StopSignal,
    ) -> NodeDescriptor {
        let (mut told, mut looked) = (Deeds::default(), Instant::now());
        let (mut counted, mut is_credited) = (Instant::now(), false);
        let mut returns = self.provider.returns();
        while !stop.came_within(LOOK) {
            let deeds = self.provider.deeds();
            let draw = Draw::of(&watch.catalogue, arguments.watts);
            self.keeper.add(deeds, counted.elapsed(), draw);
            counted = Instant::now();
            self.tell(&mut told, deeds);
            if self.provider.returns() > returns {
                (returns, is_credited) = (self.provider.returns(), false);
                self.printer.say("The validators did not see the node for a while; it is back.");
            }
            if looked.elapsed() < LOOK_AROUND {
                continue;
            }
            looked = Instant::now();
            self.save();
            is_credited = is_credited || self.is_credited_now();
            let Ok((now, reason)) = watch.look(arguments) else { continue };
            if now == descriptor {
                continue;
            }
            if let Some(words) = change_words(&descriptor, &now, reason) {
                self.printer.say(words);
            }
            self.provider.set_gpus(machine::gpu_places(&watch.catalogue, &arguments.gpus));
            match self.session.runtime.block_on(self.provider.change(now.clone())) {
                Ok(()) => descriptor = now,
                Err(error) => {
                    self.printer.say(format_args!("The offer could not be changed: {error}."));
                }
            }
        }
        self.save();
        descriptor
    }

    /// Asks whether the machine has shown what it can do, and says so if it has.
    fn is_credited_now(&self) -> bool {
        let credited = self.provider.credited(Duration::ZERO);
        let is_credited = self.session.runtime.block_on(credited).unwrap_or(false);
        if is_credited {
            self.printer.say("The network has measured what this machine can do: it gets work.");
        }
        is_credited
    }

    /// Says what was done since the last time.
    fn tell(&self, told: &mut Deeds, deeds: Deeds) {
        let Deeds { runs, checks, objections, given_up, earned, lost, is_busy: _ } = deeds;
        if (Deeds { is_busy: told.is_busy, ..deeds }) == *told {
            return;
        }
        *told = deeds;
        let lost = if lost == Amount::ZERO { String::new() } else { format!(", {lost} lost") };
        self.printer.say(format_args!(
            "{runs} runs shown, {checks} checks passed, {objections} objections, {given_up} given \
             up; {earned} earned{lost}"
        ));
    }

    fn save(&mut self) {
        if let Err(error) = self.keeper.save() {
            self.printer.say(format_args!("The account could not be written: {error}."));
        }
    }
}

/// What decides whether work is taken.
struct Watch {
    catalogue: Catalogue,
    workshop: Option<Arc<Workshop>>,
    splitter: Option<Arc<dyn Splitter>>,
    hours: Option<Hours>,
    zone: Zone,
    idle: Option<(IdleSampler, IdleWatch)>,
}

impl Watch {
    fn new(arguments: &ProvideArguments, state: &Path, printer: &Printer) -> Result<Self, Failure> {
        let mut catalogue =
            machine::detect(arguments.nvml_library.clone(), arguments.software_gpus);
        let folder = state.join(format!("sandbox-{}", arguments.name));
        let workshop = if arguments.no_sandbox {
            None
        } else {
            let workshop = machine::workshop(&folder, arguments.allow_network);
            let hint = "give --no-sandbox to offer tensor programs only";
            Some(workshop.or_fail("strangers' programs cannot be run here without harm", hint)?)
        };
        if let Some(workshop) = &workshop
            && machine::features(Some(workshop)) == Features::NONE
        {
            printer.say("No sandbox works on this machine, so only tensor programs are offered:");
            for ability in workshop.sandbox.abilities().explain() {
                let hint = ability.hint.unwrap_or_default();
                printer.say(format_args!("  {}: {hint}", ability.what));
            }
        }
        let can_split = machine::features(workshop.as_ref()).contains(Features::SANDBOX);
        let splitter = if can_split && arguments.gpus != GpuChoice::None {
            split(&catalogue, arguments, state, printer)
        } else {
            None // only commands have parts of GPUs
        };
        let split = splitter.as_ref().map(|splitter| splitter.gpus()).unwrap_or_default();
        catalogue.give_out(GivenOut { split, shares: arguments.share_gpus });
        let splitter = splitter.map(|splitter| -> Arc<dyn Splitter> { Arc::new(splitter) });
        let zone = Zone::read(Path::new("/"));
        let zone = zone.or_fail("--hours cannot be used", "mend /etc/localtime")?;
        let idle = arguments
            .only_idle
            .then(|| (IdleSampler::new(&catalogue), IdleWatch::new(IdleRules::default())));
        let hours = arguments.hours.clone();
        Ok(Self { catalogue, workshop, splitter, hours, zone, idle })
    }

    /// The offer as it ought to be now, and why it is open or not.
    fn look(
        &mut self,
        arguments: &ProvideArguments,
    ) -> Result<(NodeDescriptor, &'static str), Failure> {
        self.catalogue.refresh();
        // One instant for all, or the offer is open until hours that have ended begin again.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let (is_open, reason) = self.is_open(now);
        let devices = machine::devices(&self.catalogue, &arguments.gpus, 1, Features::NONE);
        let devices = with_features(devices, machine::features(self.workshop.as_ref()));
        let terms = OfferTerms {
            region: arguments.region.clone(),
            price_per_hour: arguments.min_price,
            price_per_tera: arguments.tera_price,
            slots: arguments.slots.unwrap_or_else(|| machine::slots(&devices)),
            host: machine::host(&devices, arguments.host()),
        };
        let offer = terms.with(devices, is_open);
        let hint = "`tensorgrid doctor` says what was found";
        let offer = offer.or_fail("this machine has no device to offer", hint)?;
        let hours = self.hours.as_ref().filter(|_| is_open);
        let closes = hours.and_then(|hours| closes(hours, &self.zone, now));
        Ok((NodeDescriptor { closes, ..offer }, reason))
    }

    /// Whether work is taken at an instant, in seconds since the Unix epoch, and why or why not.
    fn is_open(&mut self, now: u64) -> (bool, &'static str) {
        let seconds = i64::try_from(now).unwrap_or(i64::MAX);
        if let (Some(hours), Ok(now)) = (&self.hours, self.zone.week_minute(seconds))
            && !hours.is_open(now)
        {
            return (false, "Outside its hours: no new work.");
        }
        let Some((sampler, watch)) = &mut self.idle else { return (true, "Open for work.") };
        match watch.step(&sampler.sample(&self.catalogue)) {
            Idleness::Idle => (true, "The machine is idle: open for work."),
            Idleness::Input => (false, "Somebody uses the machine: no new work."),
            Idleness::Cpu => (false, "Others keep the processor busy: no new work."),
            Idleness::Gpu => (false, "Others keep a GPU busy: no new work."),
            Idleness::Settling => (false, "Waiting until the machine has been idle for a while."),
            Idleness::Unknown => (false, "Whether the machine is idle cannot be seen yet."),
        }
    }
}

/// When the hours end that go on at an instant, in seconds since the Unix epoch, as blocks tell the
/// time; `None` if none do, or they never end.
fn closes(hours: &Hours, zone: &Zone, now: u64) -> Option<Tick> {
    let minute = zone.week_minute(i64::try_from(now).ok()?).ok()?;
    let minutes = hours.until_change(minute).filter(|_| hours.is_open(minute))?;
    let begun = now - now % SECONDS_PER_MINUTE;
    let closes = begun.checked_add(u64::from(minutes).checked_mul(SECONDS_PER_MINUTE)?)?;
    Some(Tick::new(closes.checked_mul(1_000)?))
}

/// Adds what the node can do for commands, except on parts that the owner has cut out of a GPU: the
/// agent cannot give these to anybody.
fn with_features(mut devices: Vec<Device>, features: Features) -> Vec<Device> {
    for device in &mut devices {
        if !device.features.contains(Features::PARTITION) {
            device.features = device.features.with(features);
        }
    }
    devices
}

/// What to say of a new offer. That it ends at another time its owner has said.
fn change_words(
    old: &NodeDescriptor,
    new: &NodeDescriptor,
    reason: &'static str,
) -> Option<&'static str> {
    if new.is_open != old.is_open {
        return Some(reason);
    }
    let is_same = NodeDescriptor { closes: old.closes, ..new.clone() } == *old;
    (!is_same).then_some("The devices have changed; the offer follows.")
}

/// Has GPUs given out in partitions where MIG is on and nobody has cut them up; says why others are
/// not.
fn split(
    catalogue: &Catalogue,
    arguments: &ProvideArguments,
    state: &Path,
    printer: &Printer,
) -> Option<MigSplitter> {
    let settings = machine::settings(arguments.nvml_library.clone(), arguments.software_gpus);
    let (splitter, reasons) = MigSplitter::open(&settings, catalogue, state.join("partitions"));
    for why in reasons {
        let causes =
            std::iter::successors(why.source(), |cause: &&dyn std::error::Error| (*cause).source());
        let causes: String = causes.map(|cause| format!(": {cause}")).collect();
        printer.say(format_args!("Not split for runs: {why}{causes}; {}.", why.fix()));
    }
    splitter
}

fn ready(
    session: &Session,
    provider: &Provider,
    catalogue: &Catalogue,
    offer: &NodeDescriptor,
) -> Ready {
    let devices = offer.devices.as_slice().iter().map(|device| OfferedDevice {
        model: device.model.to_string(),
        memory_mib: device.memory_mib,
        count: device.count,
        features: device.features.words().collect(),
        sharing: device.sharing.to_string(),
    });
    let found = findings(catalogue);
    let warnings = found.iter().filter(|finding| finding.severity != Severity::Note);
    let warnings = warnings.map(|finding| format!("{}: {}", finding.what, finding.fix));
    let missing = machine::missing_kernels(catalogue);
    let missing = missing.map(|what| format!("{what}: {}", machine::KERNELS_FIX));
    Ready {
        node: Text(provider.node()),
        account: Text(session.account()),
        devices: devices.collect(),
        absences: catalogue.absences().iter().map(ToString::to_string).collect(),
        warnings: warnings.chain(missing).collect(),
        slots: offer.slots,
        open: offer.is_open,
    }
}

fn ready_text(ready: &Ready, printer: &Printer) -> String {
    let mut rows = vec![("node", ready.node.to_string()), ("account", ready.account.to_string())];
    for device in &ready.devices {
        let features = match device.features.as_slice() {
            [] => String::new(),
            words => format!(" ({})", words.join(", ")),
        };
        let (count, model, memory) = (device.count, &device.model, device.memory_mib);
        let is_whole = device.sharing == Sharing::WHOLE.to_string();
        let sharing = if is_whole { String::new() } else { format!(", {}", device.sharing) };
        rows.push(("device", format!("{count} × {model}, {memory} MiB{features}{sharing}")));
    }
    rows.extend(ready.absences.iter().map(|absence| ("not found", absence.clone())));
    rows.extend(ready.warnings.iter().map(|warning| ("warning", warning.clone())));
    let open = if ready.open { "It takes work now." } else { "It does not take work yet." };
    let heading = printer.word(Tone::Good, "The node is on the network.");
    format!("{heading} {open} ^C stops it.\n{}", lines(&rows))
}

#[cfg(test)]
mod tests {
    use super::{change_words, closes, with_features};
    use crate::files::TemporaryFolder;
    use tg_provider::hours::{Hours, Zone};
    use tg_types::{Amount, Device, DeviceKind, Features, List, NodeDescriptor, Sharing, Tick};

    fn device(features: Features) -> Device {
        let model = "one".parse().expect("a name");
        let (kind, sharing) = (DeviceKind::Gpu, Sharing::WHOLE);
        Device { kind, model, memory_mib: 1, count: 1, features, sharing }
    }

    #[test]
    fn hours_close_when_they_end_and_not_while_they_are_over() {
        let folder = TemporaryFolder::new().expect("a folder");
        let zone = Zone::read(folder.path()).expect("UTC");
        let check = |hours: &str, now: u64, expected: Option<u64>| {
            let hours: Hours = hours.parse().expect("hours");
            let expected = expected.map(|seconds| Tick::new(seconds * 1_000));
            assert_eq!(closes(&hours, &zone, now), expected, "{now}");
        };
        const MIDNIGHT: u64 = 1_768_435_200; // Thursday, 15 January 2026
        const HOUR: u64 = 3_600;
        let end = MIDNIGHT + 8 * HOUR;
        check("22-08", MIDNIGHT, Some(end));
        check("22-08", end - 1, Some(end));
        check("22-08", end, None);
        check("22-08", MIDNIGHT + 22 * HOUR - 1, None);
        check("22-08", MIDNIGHT + 22 * HOUR, Some(end + 24 * HOUR));
        check("mon-sun 00-24", MIDNIGHT, None);
        check("22-08", u64::MAX, None);
    }

    #[test]
    fn parts_that_the_owner_has_cut_out_are_not_for_commands() {
        let devices = vec![device(Features::NONE), device(Features::PARTITION)];
        let [whole, part] = with_features(devices, Features::SANDBOX).try_into().expect("two");
        assert_eq!((whole.features, part.features), (Features::SANDBOX, Features::PARTITION));
    }

    #[test]
    fn new_offer_is_told_by_what_has_changed() {
        let old = NodeDescriptor {
            region: "here".parse().expect("a name"),
            devices: List::new(vec![device(Features::NONE)]).expect("few"),
            host: tg_types::HostPart::NONE,
            price_per_hour: Amount::ZERO,
            price_per_tera: Amount::ZERO,
            slots: 1,
            is_open: true,
            closes: Some(Tick::new(1)),
        };
        let check = |new: NodeDescriptor, expected: Option<&str>| {
            assert_eq!(change_words(&old, &new, "why"), expected);
        };
        check(NodeDescriptor { closes: None, ..old.clone() }, None);
        check(NodeDescriptor { is_open: false, closes: None, ..old.clone() }, Some("why"));
        let devices = List::new(vec![device(Features::ONNX)]).expect("few");
        let changed = Some("The devices have changed; the offer follows.");
        check(NodeDescriptor { devices, ..old.clone() }, changed);
    }
}

//! Offering this machine: what it has is found, offered and looked at again and again; work comes
//! and goes without anybody reaching in from outside.

use crate::{
    args::provide::ProvideArguments,
    failure::{Exit, Failure, OrFail as _},
    printer::{Printer, Tone, lines},
    settings::ProvideSettings,
    stop::StopSignal,
    work::{
        connect::Session,
        machine::{self, OfferTerms},
        provider::{Leave, Provider, ProviderPlan},
    },
};
use serde::Serialize;
use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tg_agent::{agent::Deeds, task_run::Workshop};
use tg_api::text::Text;
use tg_provider::{
    devices::{Catalogue, Severity, findings},
    hours::{Hours, Zone},
    idle::{IdleRules, IdleSampler, IdleWatch, Idleness},
};
use tg_types::{AccountId, Features, NodeDescriptor, NodeId};

/// How often the wish to stop and the deeds are looked at.
const LOOK: Duration = Duration::from_millis(200);

/// How often devices, hours and idleness are looked at.
const LOOK_AROUND: Duration = Duration::from_secs(2);

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
}

/// `provide`
pub(super) fn run(settings: ProvideSettings, printer: &Printer) -> Result<Exit, Failure> {
    let ProvideSettings { way, state, arguments } = settings;
    let stop = StopSignal::listen().or_fail("signals cannot be heard", "try again")?;
    let mut watch = Watch::new(&arguments, &state, printer)?;
    let session = Session::open(&way, arguments.name.as_str())?;
    let what = "this machine cannot offer its services";
    let hint = format!("its account is {}; has it enough money for --stake?", session.account());
    let (descriptor, _) = watch.look(&arguments)?;
    let plan = ProviderPlan {
        descriptor: descriptor.clone(),
        stake: arguments.stake,
        workshop: watch.workshop.clone(),
        cheats: false,
    };
    let key = tg_types::SecretKey::from_seed(*session.key.expose_seed());
    let gateway = Arc::clone(&session.gateway);
    let starting = Provider::start(gateway, session.relay.clone(), key, plan);
    let provider = session.runtime.block_on(starting).or_fail(what, hint)?;
    let ready = ready(&session, &provider, &watch.catalogue, &descriptor);
    printer.result(&ready, || ready_text(&ready, printer));
    let last = work(&session, &provider, &mut watch, &arguments, descriptor, &stop, printer);
    let grace = Duration::from_secs(arguments.grace);
    printer.say("Finishing what was begun; ^C again leaves it to others.");
    let left = session.runtime.block_on(provider.leave(last, grace));
    match left.or_fail("the node did not leave well", "it counts as absent from now on")? {
        Leave::Left => printer.say("The node has left the network; its stake is still its own."),
        Leave::Busy => printer.say("The node had work left; others will do it."),
    }
    session.close();
    Ok(Exit::Done)
}

/// Everything between start and stop. Gives the last offer.
fn work(
    session: &Session,
    provider: &Provider,
    watch: &mut Watch,
    arguments: &ProvideArguments,
    mut descriptor: NodeDescriptor,
    stop: &StopSignal,
    printer: &Printer,
) -> NodeDescriptor {
    let (mut told, mut looked) = (Deeds::default(), Instant::now());
    while !stop.came_within(LOOK) {
        let deeds = provider.deeds();
        if deeds != told {
            told = deeds;
            printer.say(format_args!(
                "{} runs shown, {} checks passed, {} objections, {} given up",
                deeds.runs, deeds.checks, deeds.objections, deeds.given_up
            ));
        }
        if looked.elapsed() < LOOK_AROUND {
            continue;
        }
        looked = Instant::now();
        let Ok((now, reason)) = watch.look(arguments) else { continue };
        if now == descriptor {
            continue;
        }
        if now.is_open != descriptor.is_open {
            printer.say(reason);
        } else {
            printer.say("The devices have changed; the offer follows.");
        }
        match session.runtime.block_on(provider.change(now.clone())) {
            Ok(()) => descriptor = now,
            Err(error) => printer.say(format_args!("The offer could not be changed: {error}.")),
        }
    }
    descriptor
}

/// What decides whether work is taken.
struct Watch {
    catalogue: Catalogue,
    workshop: Option<Arc<Workshop>>,
    hours: Option<Hours>,
    zone: Zone,
    idle: Option<(IdleSampler, IdleWatch)>,
}

impl Watch {
    fn new(arguments: &ProvideArguments, state: &Path, printer: &Printer) -> Result<Self, Failure> {
        let catalogue = machine::detect(arguments.nvml_library.clone());
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
        let zone = Zone::read(Path::new("/"));
        let zone = zone.or_fail("--hours cannot be used", "mend /etc/localtime")?;
        let idle = arguments
            .only_idle
            .then(|| (IdleSampler::new(&catalogue), IdleWatch::new(IdleRules::default())));
        let hours = arguments.hours.clone();
        Ok(Self { catalogue, workshop, hours, zone, idle })
    }

    /// The offer as it ought to be now, and why it is open or not.
    fn look(
        &mut self,
        arguments: &ProvideArguments,
    ) -> Result<(NodeDescriptor, &'static str), Failure> {
        self.catalogue.refresh();
        let (is_open, reason) = self.is_open();
        let terms = OfferTerms {
            region: arguments.region.clone(),
            price_per_hour: arguments.min_price,
            price_per_tera: arguments.tera_price,
            slots: arguments.slots,
        };
        let features = machine::features(self.workshop.as_ref());
        let devices = machine::devices(&self.catalogue, &arguments.gpus, 1, features);
        let offer = terms.with(devices, is_open);
        let hint = "`tensorgrid doctor` says what was found";
        Ok((offer.or_fail("this machine has no device to offer", hint)?, reason))
    }

    fn is_open(&mut self) -> (bool, &'static str) {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
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
    });
    let found = findings(catalogue);
    let warnings = found.iter().filter(|finding| finding.severity != Severity::Note);
    Ready {
        node: Text(provider.node()),
        account: Text(session.account()),
        devices: devices.collect(),
        absences: catalogue.absences().iter().map(ToString::to_string).collect(),
        warnings: warnings.map(|finding| format!("{}: {}", finding.what, finding.fix)).collect(),
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
        rows.push(("device", format!("{count} × {model}, {memory} MiB{features}")));
    }
    rows.extend(ready.absences.iter().map(|absence| ("not found", absence.clone())));
    rows.extend(ready.warnings.iter().map(|warning| ("warning", warning.clone())));
    let open = if ready.open { "It takes work now." } else { "It does not take work yet." };
    let heading = printer.word(Tone::Good, "The node is on the network.");
    format!("{heading} {open} ^C stops it.\n{}", lines(&rows))
}

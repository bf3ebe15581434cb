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
use tg_types::{AccountId, Amount, Features, NodeDescriptor, NodeId};

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
    let path = account::path(&state, &arguments.name);
    let hint = format!("look at {}, or move it away to begin anew", path.display());
    let keeper = AccountKeeper::open(path, arguments.power_cost);
    let mut keeper = keeper.or_fail("the account of this node cannot be read", hint)?;
    let session = Session::open(&way, arguments.name.as_str(), Standing::Node)?;
    let what = "this machine cannot offer its services";
    let hint = format!("its account is {}; has it enough money for --stake?", session.account());
    let (descriptor, _) = watch.look(&arguments)?;
    let plan = ProviderPlan {
        descriptor: descriptor.clone(),
        gpus: machine::gpu_places(&watch.catalogue, &arguments.gpus),
        stake: arguments.stake,
        workshop: watch.workshop.clone(),
        notes: Some(state.join(format!("promises-{}", arguments.name))),
        cheats: None,
    };
    let key = tg_types::SecretKey::from_seed(*session.key.expose_seed());
    let gateway = Arc::clone(&session.gateway);
    let starting = Provider::start(gateway, key, plan);
    let provider = session.runtime.block_on(starting).or_fail(what, hint)?;
    let ready = ready(&session, &provider, &watch.catalogue, &descriptor);
    printer.result(&ready, || ready_text(&ready, printer));
    let mut desk = Desk { session: &session, provider: &provider, printer, keeper: &mut keeper };
    let last = desk.work(&mut watch, &arguments, descriptor, &stop);
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
            if now.is_open != descriptor.is_open {
                self.printer.say(reason);
            } else {
                self.printer.say("The devices have changed; the offer follows.");
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
    hours: Option<Hours>,
    zone: Zone,
    idle: Option<(IdleSampler, IdleWatch)>,
}

impl Watch {
    fn new(arguments: &ProvideArguments, state: &Path, printer: &Printer) -> Result<Self, Failure> {
        let catalogue = machine::detect(arguments.nvml_library.clone(), arguments.software_gpus);
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
        let features = machine::features(self.workshop.as_ref());
        let devices = machine::devices(&self.catalogue, &arguments.gpus, 1, features);
        let terms = OfferTerms {
            region: arguments.region.clone(),
            price_per_hour: arguments.min_price,
            price_per_tera: arguments.tera_price,
            slots: arguments.slots.unwrap_or_else(|| machine::slots(&devices)),
        };
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
        rows.push(("device", format!("{count} × {model}, {memory} MiB{features}")));
    }
    rows.extend(ready.absences.iter().map(|absence| ("not found", absence.clone())));
    rows.extend(ready.warnings.iter().map(|warning| ("warning", warning.clone())));
    let open = if ready.open { "It takes work now." } else { "It does not take work yet." };
    let heading = printer.word(Tone::Good, "The node is on the network.");
    format!("{heading} {open} ^C stops it.\n{}", lines(&rows))
}

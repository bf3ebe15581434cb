//! The first job of a network, told line by line: a drawn digit is classified by somebody else's
//! machine, checked by others, and paid.

use super::local::{Doors, LocalError};
use super::machine::{self, GpuChoice, OfferTerms};
use super::market::Urgency;
use super::order::{Client, Job, Judged, Order, OrderError};
use super::provider::{Provider, ProviderError, ProviderPlan};
use crate::arrays::{self, Format};
use crate::printer::{Printer, duration};
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tg_agent::agent::Cheat;
use tg_agent::task_run::Workshop;
use tg_api::{
    text::{Text, Tgrid},
    words::{Line, short},
};
use tg_gateway::KeyEscrow;
use tg_ledger::{JobEntry, keys};
use tg_onnx::{Choices, Source};
use tg_tensor::{Array, Data, Model, Tensor};
use tg_types::{
    AccountId, Amount, DurationMs, Event, Hash32, HostPart, JobId, JobStatus, Needs, NodeId,
    SecretKey, Tier,
};

/// A classifier of drawn digits, made by `fixtures/digits/make_digits.py`.
const MODEL: &[u8] = include_bytes!("../../../../fixtures/digits/digits.onnx");

/// Digits that we drew.
const IMAGES: &[u8] = include_bytes!("../../../../fixtures/digits/strokes-images.npy");

/// Which digits they are.
const LABELS: &[u8] = include_bytes!("../../../../fixtures/digits/strokes-labels.npy");

/// Images by which the integers of the program are chosen.
const CALIBRATION: usize = 32;

/// Side of an image.
const SIDE: usize = 28;

/// Pixels of an image.
const PIXELS: usize = SIDE * SIDE;

/// What the client of the story begins with.
const CLIENT_MONEY: Amount = Amount::constant(10_000_000_000);

/// What an hour and 10^12 multiply-adds cost of a provider that lies: half of what others ask for,
/// so it is chosen.
const LIAR_PRICES: [Amount; 2] = [Amount::constant(50_000_000), Amount::constant(500_000_000)];

const _: () = assert!(LIAR_PRICES[0].units() * 2 == machine::PRICE_PER_HOUR.units());
const _: () = assert!(LIAR_PRICES[1].units() * 2 == machine::PRICE_PER_TERA.units());

/// Providers of a story.
const PROVIDERS: u32 = 3;

/// Runs that each takes at once.
const SLOTS: u16 = 4;

/// How long a provider may take to show what it can do before the story goes on without.
const PROVE_WAIT: Duration = Duration::from_secs(10);

/// Why the story broke off.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoryError {
    #[error(transparent)]
    Local(#[from] LocalError),
    #[error(transparent)]
    Provider(#[from] ProviderError),
    #[error(transparent)]
    Order(#[from] OrderError),
    #[error(transparent)]
    Gateway(#[from] tg_gateway::GatewayError),
    #[error("there are no random numbers")]
    Random(#[from] crate::files::FileError),
    #[error("the model that comes with the program cannot be used")]
    Model,
    #[error("this machine has no device to offer")]
    NoDevice,
    #[error("the job was not accepted, it is {0:?}")]
    NotAccepted(JobStatus),
}

/// How the story ended.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Told {
    /// The job.
    pub(crate) job: Text<JobId>,
    /// The digit that was found; none if the result does not open.
    pub(crate) digit: Option<usize>,
    /// What the provider lost by a complaint, if there was one.
    pub(crate) complaint: Option<Tgrid>,
    /// The digit that was drawn.
    pub(crate) drawn: usize,
    /// What was quoted at most.
    pub(crate) quoted: Tgrid,
    /// What it cost.
    pub(crate) charged: Tgrid,
    /// Checkers that found the result right.
    pub(crate) checkers: usize,
    /// Who was caught lying.
    pub(crate) slashed: Vec<Text<NodeId>>,
    /// From handing in to payment.
    pub(crate) paid_ms: u64,
    /// The output, by content.
    pub(crate) output: Text<Hash32>,
}

/// The digit to be classified, and the model that does it.
struct Digit {
    model: Model,
    input: Tensor,
    label: usize,
}

/// Makes the program of the classifier and takes one image.
fn digit(which: usize) -> Option<Digit> {
    let source = Source::read(MODEL, &tg_onnx::Options::default()).ok()?;
    let images = numbers(IMAGES)?;
    let labels = numbers(LABELS)?;
    let sample = |place: usize| {
        let pixels = images.get(place * PIXELS..(place + 1) * PIXELS)?;
        let bright = pixels.iter().map(|pixel| pixel / 255.0).collect();
        Array::new(vec![1, 1, SIDE, SIDE], Data::Float(bright)).ok()
    };
    let samples: Option<Vec<Vec<Array>>> =
        (0..CALIBRATION).map(|place| sample(place).map(|array| vec![array])).collect();
    let model = source.import(&samples?, &[], Choices { activation_bits: 8 }).ok()?.model;
    let input = model.program().inputs().first()?.encode(&sample(which)?).ok()?;
    let label = labels.get(which).map(|label| *label as usize)?;
    Some(Digit { model, input, label })
}

/// A small model with one input, for measuring.
pub(crate) fn sample(which: usize) -> Option<(Model, Tensor)> {
    digit(which).map(|digit| (digit.model, digit.input))
}

/// The numbers of an array file as floats.
fn numbers(bytes: &[u8]) -> Option<Vec<f32>> {
    let (_, array) = arrays::parse(bytes, Format::Npy).ok()?.into_iter().next()?;
    Some(array.to_floats())
}

/// Starts providers on this machine: each offers its processor with a part of its memory.
pub(crate) async fn providers(
    doors: &Doors,
    workshop: Option<Arc<Workshop>>,
    cheat: Option<Cheat>,
    printer: &Printer,
) -> Result<Vec<Provider>, StoryError> {
    let catalogue = machine::detect(None, false);
    let features = machine::features(workshop.as_ref());
    let mut providers = Vec::new();
    for number in 0..PROVIDERS {
        let cheats = cheat.filter(|_| number == 0);
        let honest = [machine::PRICE_PER_HOUR, machine::PRICE_PER_TERA];
        let [price_per_hour, price_per_tera] = if cheats.is_some() { LIAR_PRICES } else { honest };
        let terms = OfferTerms {
            region: "here".parse().map_err(|_| StoryError::Model)?,
            price_per_hour,
            price_per_tera,
            slots: SLOTS,
            host: HostPart::NONE,
        };
        let gpus = if number == 0 { GpuChoice::All } else { GpuChoice::None };
        let devices = machine::devices(&catalogue, &gpus, PROVIDERS, features);
        let descriptor = terms.with(devices, true).map_err(|_| StoryError::NoDevice)?;
        let workshop = workshop.clone();
        let gpus = machine::gpu_places(&catalogue, &gpus);
        let stake = machine::STAKE;
        let (splitter, notes) = (None, None);
        let plan = ProviderPlan { descriptor, gpus, splitter, stake, workshop, notes, cheats };
        let key = SecretKey::from_seed(crate::files::random()?);
        let gateway = doors.gateway(&key).await?;
        providers.push(Provider::start(gateway, key, plan).await?);
    }
    let model = catalogue.devices().first().map_or("unknown", |device| device.model.as_str());
    let liar = if cheat.is_some() { "; one of them lies" } else { "" };
    printer.say(format_args!(
        "{PROVIDERS} providers on this machine's processor ({model}) have joined{liar}."
    ));
    prove(&providers, cheat, printer).await?;
    Ok(providers)
}

/// Waits until the providers have shown what they can do; a liar does not.
async fn prove(
    providers: &[Provider],
    cheat: Option<Cheat>,
    printer: &Printer,
) -> Result<(), StoryError> {
    let started = Instant::now();
    let honest = if cheat == Some(Cheat::Capacity) { 1.. } else { 0.. };
    let mut proved = 0;
    for provider in providers.get(honest).unwrap_or_default() {
        proved += u32::from(provider.credited(PROVE_WAIT).await?);
    }
    let took = duration(started.elapsed());
    printer.say(format_args!(
        "{proved} of {PROVIDERS} filled memory from a fresh seed and showed what was drawn of it \
         ({took}): they get work."
    ));
    Ok(())
}

/// The job of the story: one digit, checked by others.
fn order<'a>(digit: &'a Digit, inputs: &'a [Tensor]) -> Order<'a> {
    Order {
        job: Job::Tensor { model: &digit.model, inputs },
        tier: Tier::Sync,
        needs: Needs::ANY,
        run_max: DurationMs::new(5_000),
        expires_after: DurationMs::MINUTE,
        promise: None,
        checkpoint: None,
        nodes: 1,
        escrow: KeyEscrow::Validators,
        urgency: Urgency::Usual,
        secret: None,
    }
}

/// Runs the first job and tells what happens.
pub(crate) async fn tell(
    doors: &Doors,
    which: usize,
    printer: &Printer,
) -> Result<Told, StoryError> {
    let digit = digit(which).ok_or(StoryError::Model)?;
    let key = SecretKey::from_seed(crate::files::random()?);
    let gateway = doors.gateway(&key).await?;
    gateway.serve(None).map_err(LocalError::from)?;
    gateway.faucet(AccountId::from(key.public()), CLIENT_MONEY).await?;
    let client = Client { gateway: &gateway, key: &key };
    let inputs = [digit.input.clone()];
    let order = order(&digit, &inputs);
    client.record(&digit.model).await?;
    let price = order.quote(&gateway).await?;
    printer.say(format_args!(
        "Quoted: {} at most for one digit, checked by others ({} for the run).",
        price.charges.escrow, price.charges.pay
    ));
    let started = Instant::now();
    let job = client.submit(&order, &price).await?;
    printer
        .say(format_args!("Escrowed: job {} is on the chain, its input is sealed.", short(&job)));
    let mut told = Telling::default();
    let entry: Option<JobEntry> = gateway.entry(keys::job(&job)).await?;
    if let Some(run) = entry.as_ref().and_then(|entry| entry.runs.as_slice().first()) {
        let at = duration(started.elapsed());
        printer.say(format_args!("  {at:>7}  Placed: node {} runs it.", short(&run.node)));
    }
    let entry = client.follow(job, |event| told.note(event, started, printer)).await?;
    if entry.status != JobStatus::Settled {
        return Err(StoryError::NotAccepted(entry.status));
    }
    let paid = told.paid.unwrap_or_else(|| started.elapsed());
    let (found, complaint) = match client.result(job, &entry, &digit.model).await {
        Ok(outputs) => (Some(outputs.first().map(best).unwrap_or_default()), None),
        Err(error) if error.is_sealed() => {
            (None, Some(complain(&client, job, &entry, printer).await?))
        }
        Err(error) => return Err(error.into()),
    };
    if let Some(found) = found {
        printer.say(format_args!(
            "The drawn digit is a {found} (it was a {}); verified and paid in {}.",
            digit.label,
            duration(paid)
        ));
    }
    let output = entry.result().map(|result| result.output).ok_or(StoryError::Model)?;
    stop(&gateway).await;
    Ok(Told {
        job: Text(job),
        digit: found,
        complaint: complaint.map(Tgrid),
        drawn: digit.label,
        quoted: Tgrid(price.charges.escrow),
        charged: Tgrid(told.charged),
        checkers: entry.passed(),
        slashed: told.slashed.into_iter().map(Text).collect(),
        paid_ms: u64::try_from(paid.as_millis()).unwrap_or(u64::MAX),
        output: Text(output),
    })
}

/// Complains about a result that does not open; says what its provider lost.
async fn complain(
    client: &Client<'_>,
    job: JobId,
    entry: &JobEntry,
    printer: &Printer,
) -> Result<Amount, StoryError> {
    printer.say(format_args!("The result is there and does not open: its key is made public."));
    let (lost, words) = match client.complain(job, entry).await? {
        Judged::Upheld(lost) => (lost, "The validators tried it. Its provider loses"),
        Judged::Rejected(_) | Judged::Lapsed => (Amount::ZERO, "The complaint was not upheld:"),
    };
    printer.say(format_args!("{words} {lost}."));
    Ok(lost)
}

async fn stop(gateway: &tg_gateway::Gateway) {
    if let Err(error) = gateway.peer().stop().await {
        tracing::debug!(%error, "a peer did not stop well");
    }
}

/// What has been told so far.
#[derive(Default)]
struct Telling {
    charged: Amount,
    slashed: Vec<NodeId>,
    paid: Option<Duration>,
}

impl Telling {
    fn note(&mut self, event: &Event, started: Instant, printer: &Printer) {
        let at = duration(started.elapsed());
        if let Event::NodeSlashed { node, .. } = event {
            self.slashed.push(*node);
        }
        if let Event::JobSettled { charged, .. } = event {
            self.charged = *charged;
            self.paid = Some(started.elapsed());
        }
        if let Some(line) = Line::of(event).filter(|line| !line.is_detail) {
            printer.say(format_args!("  {at:>7}  {}: {}", line.step, line.text));
        }
    }
}

/// The place of the largest number.
fn best(scores: &Tensor) -> usize {
    let numbers = scores.to_numbers();
    let best =
        numbers.iter().enumerate().max_by_key(|(place, number)| (**number, usize::MAX - place));
    best.map_or(0, |(place, _)| place)
}

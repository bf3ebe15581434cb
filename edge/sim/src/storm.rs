//! The faults of a run: drawn from the seed before it starts, carried out at their time, undone at
//! theirs, and all undone when the storm is over.

use crate::{
    hostile::{Hostile, Licence},
    trace::Trace,
    world::{Vice, World, chance},
};
use rand::{RngExt as _, rngs::StdRng, seq::SliceRandom as _};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tg_sim::cluster::{Cluster, PerMille, Side, Tear};

/// When the storm begins and how long it lasts, in milliseconds of virtual time.
const BEGIN_MS: u64 = 500;
const LENGTH_MS: std::ops::Range<u64> = 15_000..19_000;

/// Faults drawn for a run, besides those of lying seats.
const FAULTS: std::ops::Range<usize> = 22..34;

/// Something that goes wrong, or right again.
#[derive(Clone, Debug)]
enum Change {
    /// Messages get lost on these ways.
    Loss(Vec<(usize, usize)>, PerMille),
    /// Messages arrive twice on these ways.
    Repeats(Vec<(usize, usize)>, PerMille),
    /// Nothing arrives on these ways.
    Cut(Vec<(usize, usize)>, bool),
    /// Messages take this long on these ways.
    Slow(Vec<(usize, usize)>, Duration),
    /// A node's clock is off.
    Skew(usize, i64),
    /// Nodes crash, and their disks do this.
    Crash(Vec<usize>, Tear),
    /// Nodes start (again).
    Start(Vec<usize>),
    /// A lying seat begins to lie.
    Lie(usize, Vice),
    /// Peers of twins change sides.
    Sides(usize, Vec<Side>),
}

/// The faults of a run.
pub(crate) struct Storm {
    queue: BTreeMap<(u64, usize), Change>,
    chance: StdRng,
    seats: usize,
    latency: Duration,
    honest: Vec<usize>,
    joins: Vec<usize>,
    slowed: BTreeSet<(usize, usize)>,
    liars_go_on: bool,
    end_ms: u64,
    pub(crate) licence: Arc<Licence>,
    /// Faults carried out, by kind.
    pub(crate) counts: BTreeMap<&'static str, u64>,
}

impl Storm {
    /// Draws the faults of a run.
    pub(crate) fn new(world: &World) -> Self {
        let mut chance = chance(world.seed, "storm");
        let length = chance.random_range(LENGTH_MS);
        let mut storm = Self {
            queue: BTreeMap::new(),
            seats: world.seats,
            latency: world.latency(),
            honest: world.honest_seats().collect(),
            joins: (world.seats..world.seats + world.followers).collect(),
            slowed: BTreeSet::new(),
            liars_go_on: chance.random_bool(0.5),
            end_ms: BEGIN_MS + length,
            licence: Arc::default(),
            counts: BTreeMap::new(),
            chance,
        };
        for _ in 0..storm.chance.random_range(FAULTS) {
            let at = storm.chance.random_range(BEGIN_MS..storm.end_ms - 400);
            storm.draw(at);
        }
        for (place, vice) in &world.vices {
            storm.draw_vice(*place, *vice, world.seats + world.followers);
        }
        for place in storm.joins.clone() {
            let at = storm.chance.random_range(2_000..storm.end_ms);
            storm.put(at, Change::Start(vec![place]));
        }
        storm
    }

    /// When the storm is over.
    pub(crate) const fn end_ms(&self) -> u64 {
        self.end_ms
    }

    /// Faults carried out.
    pub(crate) fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    fn put(&mut self, at_ms: u64, change: Change) {
        let order = self.queue.len();
        self.queue.insert((at_ms, order), change);
    }

    /// Some ways between seats: out of one node, into one node, between two halves, or any.
    fn ways(&mut self) -> Vec<(usize, usize)> {
        let all = (0..self.seats).flat_map(|from| (0..self.seats).map(move |to| (from, to)));
        let all: Vec<(usize, usize)> = all.filter(|(from, to)| from != to).collect();
        let one = self.chance.random_range(0..self.seats);
        let mut half: Vec<usize> = (0..self.seats).collect();
        half.shuffle(&mut self.chance);
        half.truncate(self.seats / 2);
        let shape = self.chance.random_range(0..5);
        let mut is_chosen = |from: usize, to: usize| match shape {
            0 => from == one,
            1 => to == one,
            2 => from == one || to == one,
            3 => half.contains(&from) && !half.contains(&to),
            _ => self.chance.random_bool(0.3),
        };
        all.into_iter().filter(|(from, to)| is_chosen(*from, *to)).collect()
    }

    /// Draws one fault and, if it ends by itself, its end.
    fn draw(&mut self, at: u64) {
        let until = at + self.chance.random_range(200..1_600);
        match self.chance.random_range(0..100) {
            0..18 => {
                let (ways, share) = (self.ways(), self.chance.random_range(50..400));
                self.put(until, Change::Loss(ways.clone(), 0));
                self.put(at, Change::Loss(ways, share));
            }
            18..34 => {
                let (ways, share) = (self.ways(), self.chance.random_range(100..600));
                self.put(until, Change::Repeats(ways.clone(), 0));
                self.put(at, Change::Repeats(ways, share));
            }
            34..52 => {
                let ways = self.ways();
                self.put(until, Change::Cut(ways.clone(), false));
                self.put(at, Change::Cut(ways, true));
            }
            52..62 => {
                let ways = self.ways();
                let latency = Duration::from_millis(self.chance.random_range(80..500));
                self.put(until, Change::Slow(ways.clone(), self.latency));
                self.put(at, Change::Slow(ways, latency));
            }
            62..76 => {
                let place = self.chance.random_range(0..self.seats);
                let far = self.chance.random_range(0..8) == 0;
                let off = if far { 4_000 } else { 400 };
                let millis = self.chance.random_range(-off..=off);
                self.put(at, Change::Skew(place, millis));
            }
            _ => self.draw_crash(at),
        }
    }

    fn draw_crash(&mut self, at: u64) {
        let mut places = self.honest.clone();
        places.shuffle(&mut self.chance);
        // Now and then the power fails and everybody is down.
        let count = if self.chance.random_range(0..12) == 0 { places.len() } else { 1 };
        places.truncate(count);
        let tear = Tear::ALL[self.chance.random_range(0..Tear::ALL.len())];
        let until = at + self.chance.random_range(100..1_500);
        self.put(at, Change::Crash(places.clone(), tear));
        self.put(until, Change::Start(places));
    }

    fn draw_vice(&mut self, place: usize, vice: Vice, nodes: usize) {
        let at = self.chance.random_range(BEGIN_MS + 3_000..BEGIN_MS + 9_000);
        match vice {
            Vice::Equivocator(_) => self.put(at, Change::Lie(place, vice)),
            Vice::Hostile => {}
            Vice::Twins => {
                for turn in 0..6 {
                    let sides = [Side::First, Side::Second, Side::Both];
                    let side = |chance: &mut StdRng| sides[chance.random_range(0..sides.len())];
                    let drawn = (0..nodes).map(|_| side(&mut self.chance)).collect();
                    self.put(at + turn * 700, Change::Sides(place, drawn));
                }
            }
        }
    }

    /// Carries out what is due.
    pub(crate) async fn step(
        &mut self,
        cluster: &mut Cluster,
        world: &World,
        now_ms: u64,
        trace: &mut Trace,
    ) {
        while let Some(entry) = self.queue.first_entry() {
            if entry.key().0 > now_ms {
                return;
            }
            let change = entry.remove();
            trace.note(now_ms, "fault", format!("{change:?}").as_bytes());
            self.carry_out(cluster, world, change).await;
        }
    }

    fn count(&mut self, kind: &'static str) {
        *self.counts.entry(kind).or_default() += 1;
    }

    async fn carry_out(&mut self, cluster: &mut Cluster, world: &World, change: Change) {
        let weather = cluster.weather().clone();
        match change {
            Change::Loss(ways, loss) => {
                if loss > 0 {
                    self.count("loss");
                }
                for (from, to) in ways {
                    weather.change(from, to, |way| way.loss = loss);
                }
            }
            Change::Repeats(ways, repeats) => {
                if repeats > 0 {
                    self.count("duplication");
                }
                for (from, to) in ways {
                    weather.change(from, to, |way| way.repeats = repeats);
                }
            }
            Change::Cut(ways, is_cut) => {
                if is_cut {
                    self.count("partition");
                }
                for (from, to) in ways {
                    weather.change(from, to, |way| way.is_cut = is_cut);
                }
            }
            Change::Slow(ways, latency) => {
                if latency != self.latency {
                    self.count("delay");
                }
                self.slowed.extend(&ways);
                for (from, to) in ways {
                    cluster.slow(from, to, latency).await;
                }
            }
            Change::Skew(place, millis) => {
                self.count("clock-skew");
                cluster.skew(place, millis);
            }
            Change::Crash(places, tear) => self.crash(cluster, places, tear).await,
            Change::Start(places) => self.start(cluster, world, places).await,
            Change::Lie(place, Vice::Equivocator(spread)) => {
                self.count("equivocator");
                cluster.start_equivocator(place, spread, world.seed).await;
            }
            Change::Lie(_, Vice::Twins | Vice::Hostile) => {}
            Change::Sides(twin, sides) => {
                self.count("twins");
                for (peer, side) in sides.into_iter().enumerate() {
                    cluster.sides(twin, peer, side);
                }
            }
        }
    }

    async fn crash(&mut self, cluster: &mut Cluster, places: Vec<usize>, tear: Tear) {
        let kind = if places.len() > 1 { "power-cut" } else { "crash" };
        let mut torn = 0;
        for place in places.into_iter().filter(|place| cluster.runs(*place)).collect::<Vec<_>>() {
            self.count(kind);
            torn += cluster.crash(place, tear, &mut self.chance).await;
        }
        if torn > 0 {
            self.count("torn-writes");
        }
    }

    async fn start(&mut self, cluster: &mut Cluster, world: &World, places: Vec<usize>) {
        for place in places {
            if cluster.runs(place) {
                continue;
            }
            let is_follower = place >= world.seats;
            if is_follower {
                self.count("late-join");
                self.joins.retain(|joins| *joins != place);
            }
            cluster.start(place, is_follower, None).await;
        }
    }

    /// Starts all nodes for the first time.
    pub(crate) async fn start_all(&mut self, cluster: &mut Cluster, world: &World) {
        for place in 0..world.seats {
            match world.vice(place) {
                None => cluster.start(place, false, None).await,
                Some(Vice::Twins) => cluster.start_twins(place).await,
                Some(Vice::Equivocator(_)) => {}
                Some(Vice::Hostile) => {
                    self.count("hostile");
                    let licence = Arc::clone(&self.licence);
                    let chance = chance(world.seed, "hostile");
                    let wrap = move |machine| Hostile::wrap(machine, chance, licence);
                    cluster.start(place, false, Some(Box::new(wrap))).await;
                }
            }
        }
    }

    /// Ends the storm: everything works again from now on.
    pub(crate) async fn end(&mut self, cluster: &mut Cluster, world: &World) {
        self.queue.clear();
        cluster.weather().clear();
        for place in 0..self.seats {
            cluster.skew(place, 0);
        }
        for (from, to) in std::mem::take(&mut self.slowed) {
            cluster.slow(from, to, self.latency).await;
        }
        for (place, vice) in &world.vices {
            match vice {
                Vice::Equivocator(_) if !self.liars_go_on => cluster.silence(*place),
                Vice::Equivocator(_) | Vice::Hostile => {}
                Vice::Twins => {
                    for peer in 0..self.seats {
                        cluster.sides(*place, peer, Side::First);
                    }
                }
            }
        }
        self.licence.is_over.store(!self.liars_go_on, Ordering::Relaxed);
        let places = self.honest.iter().chain(&self.joins).copied().collect();
        self.start(cluster, world, places).await;
    }
}

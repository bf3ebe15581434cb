//! What is simulated, and every number that is fixed before a run.

use tg_types::{amount::Amount, job::Tier, tick::DurationMs};

/// Owners with one node and the same stake each.
pub(super) const PARTIES: usize = 30;

/// How many of them are dishonest: 30 % of the stake.
pub(super) const DISHONEST: usize = 9;

/// Runs that a node takes at once.
pub(super) const SLOTS: u16 = 4;

/// What every owner has at stake: so much that what liars lose does not change the draw.
pub(super) const STAKE_TGRID: u64 = 10_000;

/// What a run is paid.
pub(super) const PAY: Amount = Amount::constant(1_000_000);

/// What computing a whole run costs, in hundredths of its pay.
pub(super) const COST_PERCENT: i128 = 50;

/// Tiles that are drawn for a checker where audits go by tiles.
pub(super) const SAMPLE: u8 = 4;

/// Time from one block to the next.
pub(super) const BLOCK: DurationMs = DurationMs::new(500);

/// How long a run may take.
pub(super) const RUN_MAX: DurationMs = DurationMs::new(20_000);

/// How long a job may take in all.
pub(super) const EXPIRES_AFTER: DurationMs = DurationMs::new(600_000);

/// The same where providers speculate on it: a little longer than a run may take.
pub(super) const EXPIRES_SOON: DurationMs = DurationMs::new(25_000);

/// How long before that such a provider commits: the draw comes three blocks later.
pub(super) const LATE_LEAD: DurationMs = DurationMs::new(3_500);

/// Jobs that wait or are under way at any time: somewhat more than all nodes take at once.
pub(super) const UNFINISHED: usize = 150;

/// A count that is less likely than this under the bound breaks the promise.
pub(super) const CHANCE_MIN: f64 = 1e-3;

/// A detection rate this many standard deviations from theory breaks the promise.
pub(super) const SIGMA_MAX: f64 = 3.0;

/// The least variance of lies accepted for which standard deviations say anything: below, a single
/// one is a third of a deviation or more off, and the exact chance alone decides.
pub(super) const VARIANCE_MIN: f64 = 9.0;

/// What a provider does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ploy {
    /// Its work.
    Honest,
    /// Makes up a tenth of the tiles, and defends them.
    Lazy,
    /// Changes one element of one tile in the middle, and defends it.
    Middle,
    /// Makes up the last tile, and defends it.
    Last,
    /// Hands in another node's seal or result.
    Copied,
    /// Changes one element, and salts its trace so that nobody can recompute it.
    Garbage,
    /// Its work, but salts its trace so that nobody can recompute it: checkers are to object and
    /// lose.
    Withheld,
    /// Computes all of it, but says that another output came out, and shows that to nobody.
    FakeOutput,
    /// Makes everything up, waits for the draw and says nothing if it is drawn.
    NoAnswer,
    /// Makes everything up; if it is drawn, its own owner objects and takes the bounty.
    Accomplice,
    /// Makes everything up and commits so late that the job expires before its date.
    Late,
    /// Makes everything up, shows it, and says nothing when somebody objects: its friends are to be
    /// spared.
    Mute,
    /// Its work, but it is away when somebody objects.
    Away,
    /// Its work, but it shows nobody what drawn tiles read.
    Unshown,
    /// Its work, but what it hands over is garbage that the client cannot open.
    Unreadable,
}

impl Ploy {
    /// The name in reports.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Honest => "honest",
            Self::Lazy => "lazy",
            Self::Middle => "middle-tile",
            Self::Last => "last-tile",
            Self::Copied => "copied",
            Self::Garbage => "garbage",
            Self::Withheld => "withheld",
            Self::FakeOutput => "fake-output",
            Self::NoAnswer => "no-answer",
            Self::Accomplice => "accomplice",
            Self::Late => "late",
            Self::Mute => "mute",
            Self::Away => "away",
            Self::Unshown => "unshown",
            Self::Unreadable => "unreadable",
        }
    }

    /// Whether its results are wrong or cannot be checked.
    pub(super) const fn lies(self) -> bool {
        !matches!(self, Self::Honest | Self::Away | Self::Unshown | Self::Unreadable)
    }
}

/// What a drawn checker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Checker {
    /// Its work.
    Honest,
    /// Its work, but accepts whatever a dishonest provider says, unless somebody objects first.
    Accepts,
    /// The same before anybody else has looked.
    Hasty,
    /// Its work, but objects to one right result in ten.
    Objects,
    /// Nothing.
    Silent,
    /// Accepts everything without looking.
    Idle,
    /// Its work, but states false sums about right results of providers that are away, for a
    /// challenger whom it knows.
    Frames,
    /// Its work, but says that it was shown nothing and recomputes the whole run for more pay.
    Greedy,
    /// The same, but only beside a friend with whom it shares the work.
    Allied,
}

impl Checker {
    /// The name in reports.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Honest => "honest",
            Self::Accepts => "accepts",
            Self::Hasty => "hasty",
            Self::Objects => "objects",
            Self::Silent => "silent",
            Self::Idle => "idle",
            Self::Frames => "frames",
            Self::Greedy => "greedy",
            Self::Allied => "allied",
        }
    }

    /// Whether it lies for its own good and not for a friend's.
    pub(super) const fn is_alone(self) -> bool {
        match self {
            Self::Honest | Self::Accepts | Self::Hasty | Self::Allied => false,
            Self::Objects | Self::Silent | Self::Idle | Self::Frames | Self::Greedy => true,
        }
    }

    /// What it does, in a sentence.
    pub(super) const fn does(self) -> &'static str {
        match self {
            Self::Honest => "does its work",
            Self::Accepts => "accepts what friends say",
            Self::Hasty => "accepts what friends say before others have looked",
            Self::Objects => "objects to right results",
            Self::Silent => "does nothing",
            Self::Idle => "accepts without looking",
            Self::Frames => "frames providers that are away, with a challenger,",
            Self::Greedy => "recomputes what was shown to it",
            Self::Allied => "recomputes, with a friend, what was shown to it",
        }
    }
}

/// A network to be simulated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) tier: Tier,
    /// What dishonest providers do, in turn.
    pub(super) ploys: &'static [Ploy],
    /// What dishonest checkers do, in turn.
    pub(super) checkers: &'static [Checker],
    /// Whether strangers object to right results.
    pub(super) has_challengers: bool,
    /// Another number of checkers than the ledger's.
    pub(super) checkers_drawn: Option<u8>,
    /// How many tiles are drawn for a checker, if it need not recompute the whole run.
    pub(super) sample: Option<u8>,
    /// How long a job may take.
    pub(super) expires_after: DurationMs,
    /// Whether the dishonest ones are. If not, nothing that it is there for happens, and a run must
    /// say so.
    pub(super) is_armed: bool,
}

/// Scenarios that are added up for a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    /// Audits of small programs.
    Audit,
    /// Audits by tiles, as large programs have them.
    Sampled,
    /// Checks of every result.
    Sync,
    /// Scenarios in which lies are to pass.
    Control,
}

impl Group {
    /// All of them.
    pub(super) const ALL: [Self; 4] = [Self::Audit, Self::Sampled, Self::Sync, Self::Control];
}

impl Scenario {
    /// Where it is added up.
    pub(super) fn group(&self) -> Group {
        match (self.checkers_drawn, self.sample) {
            (Some(_), _) => Group::Control,
            (None, Some(_)) => Group::Sampled,
            (None, None) if self.tier == Tier::Audit => Group::Audit,
            (None, None) => Group::Sync,
        }
    }

    /// The name in reports.
    pub(super) fn title(&self) -> String {
        format!("{}/{}", tier_name(self.tier), self.name)
    }
}

const fn lying(name: &'static str, ploys: &'static [Ploy]) -> Scenario {
    Scenario {
        name,
        tier: Tier::Audit,
        ploys,
        checkers: &[Checker::Accepts],
        has_challengers: false,
        checkers_drawn: None,
        sample: None,
        expires_after: EXPIRES_AFTER,
        is_armed: true,
    }
}

const fn checking(name: &'static str, checkers: &'static [Checker]) -> Scenario {
    Scenario { checkers, ..lying(name, &[Ploy::Honest]) }
}

const fn away(name: &'static str, checkers: &'static [Checker]) -> Scenario {
    Scenario { checkers, has_challengers: true, ..lying(name, &[Ploy::Away]) }
}

/// All scenarios of one tier; the tier is set by [`all`].
const EACH: [Scenario; 20] = [
    checking("honest", &[Checker::Honest]),
    lying("lazy", &[Ploy::Lazy]),
    lying("middle-tile", &[Ploy::Middle]),
    lying("last-tile", &[Ploy::Last]),
    lying("copied", &[Ploy::Copied]),
    lying("garbage", &[Ploy::Garbage]),
    lying("withheld", &[Ploy::Withheld]),
    lying("fake-output", &[Ploy::FakeOutput]),
    lying("no-answer", &[Ploy::NoAnswer]),
    lying("accomplice", &[Ploy::Accomplice]),
    Scenario { expires_after: EXPIRES_SOON, ..lying("late", &[Ploy::Late]) },
    Scenario { checkers: &[Checker::Hasty], ..lying("mute", &[Ploy::Mute]) },
    Scenario { checkers: &[Checker::Honest], ..lying("unreadable", &[Ploy::Unreadable]) },
    away("away", &[Checker::Honest]),
    away("framed", &[Checker::Frames]),
    checking("false-checkers", &[Checker::Objects]),
    checking("silent-checkers", &[Checker::Silent]),
    checking("idle-checkers", &[Checker::Idle]),
    Scenario { has_challengers: true, ..checking("false-challengers", &[Checker::Honest]) },
    Scenario {
        checkers: &[Checker::Accepts, Checker::Objects, Checker::Silent],
        has_challengers: true,
        ..lying(
            "mixed",
            &[
                Ploy::Lazy,
                Ploy::Middle,
                Ploy::Last,
                Ploy::Copied,
                Ploy::Garbage,
                Ploy::FakeOutput,
                Ploy::NoAnswer,
                Ploy::Accomplice,
                Ploy::Late,
            ],
        )
    },
];

/// With two checkers instead of seven lies do pass now and then, so that it shows whether they are
/// counted and how often.
const CONTROL: Scenario = Scenario {
    tier: Tier::Sync,
    checkers_drawn: Some(2),
    ..lying("two-checkers", &[Ploy::Middle])
};

const fn sampled(name: &'static str, ploys: &'static [Ploy]) -> Scenario {
    Scenario { sample: Some(SAMPLE), ..lying(name, ploys) }
}

/// Audits by tiles. The program is small, but the parameters are such that the ledger draws tiles
/// of it as of a large one. Here it matters how much of a run is wrong.
const SAMPLED: [Scenario; 9] = [
    sampled("lazy-sampled", &[Ploy::Lazy]),
    sampled("middle-tile-sampled", &[Ploy::Middle]),
    sampled("last-tile-sampled", &[Ploy::Last]),
    sampled("garbage-sampled", &[Ploy::Garbage]),
    sampled("fake-output-sampled", &[Ploy::FakeOutput]),
    Scenario { checkers: &[Checker::Idle], ..sampled("idle-sampled", &[Ploy::Honest]) },
    Scenario { checkers: &[Checker::Honest], ..sampled("unshown-sampled", &[Ploy::Unshown]) },
    Scenario { checkers: &[Checker::Greedy], ..sampled("greedy-sampled", &[Ploy::Honest]) },
    Scenario { checkers: &[Checker::Allied], ..sampled("allied-sampled", &[Ploy::Honest]) },
];

/// Every scenario, in the order in which they run.
pub(super) fn all() -> Vec<Scenario> {
    let of = |tier| EACH.into_iter().map(move |scenario| Scenario { tier, ..scenario });
    of(Tier::Audit).chain(SAMPLED).chain(of(Tier::Sync)).chain([CONTROL]).collect()
}

/// The word for a tier in reports.
pub(super) const fn tier_name(tier: Tier) -> &'static str {
    match tier {
        Tier::Trusted => "trusted",
        Tier::Audit => "audit",
        Tier::Sync => "sync",
        Tier::Redundant { .. } => "redundant",
        Tier::Proof { .. } => "proof",
        Tier::Rerun => "rerun",
        Tier::Zk { .. } => "zk",
    }
}

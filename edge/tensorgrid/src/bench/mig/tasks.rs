//! Tasks of a recorded cluster that take one GPU or less, and sequences of them.

use super::super::draws::Draws;

/// Thousandths of a GPU.
const GPU_MILLI: u32 = 1_000;
/// The mean of lifetimes that are drawn, in seconds.
const LIFETIME_S: f64 = 3_600.0;
/// Halvings until the spacing of arrivals is found: more than a second's bits.
const HALVINGS: u32 = 64;

/// Why a file is no list of tasks.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TasksError {
    /// The first line does not name a column.
    #[error("the first line has no column {0}")]
    Column(&'static str),
    /// A field is missing or is no number.
    #[error("line {line}: {column} is no number that fits")]
    Field {
        /// Which line, from 1.
        line: usize,
        /// Which column.
        column: &'static str,
    },
    /// No task takes one GPU.
    #[error("no line has num_gpu 1")]
    Empty,
}

/// A task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Task {
    /// When it was created, in seconds.
    pub(super) created: u64,
    /// Thousandths of a GPU that it demands.
    pub(super) milli: u16,
    /// How long it runs.
    pub(super) seconds: u64,
}

/// Reads the tasks that take one GPU or a part of one.
pub(super) fn parse(text: &str) -> Result<Vec<Task>, TasksError> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let place = |column: &'static str| {
        let found = names.iter().position(|name| *name == column);
        found.map(|place| (place, column)).ok_or(TasksError::Column(column))
    };
    let (count, milli) = (place("num_gpu")?, place("gpu_milli")?);
    let (created, deleted) = (place("creation_time")?, place("deletion_time")?);
    let mut tasks = Vec::new();
    for (line, text) in (2..).zip(lines) {
        let fields: Vec<&str> = text.split(',').collect();
        let number = |(place, column): (usize, &'static str)| {
            // Some lists have all numbers with a point.
            let text: Option<&str> = fields.get(place).map(|text| text.trim_end_matches(".0"));
            let number = text.and_then(|text| text.parse::<u64>().ok());
            number.ok_or(TasksError::Field { line, column })
        };
        if number(count)? != 1 {
            continue;
        }
        let is_share = |share: &u16| (1..=GPU_MILLI).contains(&u32::from(*share));
        let share = u16::try_from(number(milli)?).ok().filter(is_share);
        let share = share.ok_or(TasksError::Field { line, column: milli.1 })?;
        let (from, to) = (number(created)?, number(deleted)?);
        let seconds = to.saturating_sub(from).max(1);
        tasks.push(Task { created: from, milli: share, seconds });
    }
    if tasks.is_empty() { Err(TasksError::Empty) } else { Ok(tasks) }
}

/// What is offered to a fleet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// GPUs of the fleet.
    pub(super) gpus: u32,
    /// In percent of the fleet.
    pub(super) percent: u64,
}

impl Load {
    /// In thousandths of a GPU.
    fn milli(self) -> u128 {
        u128::from(self.percent) * u128::from(self.gpus) * u128::from(GPU_MILLI / 100)
    }
}

/// How long tasks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lifetimes {
    /// As recorded: a few tasks that hardly end have most of the time of all.
    Recorded,
    /// Drawn, exponentially distributed, so that what tasks demand counts and not how long.
    Drawn,
}

/// Tasks in the order in which they come, and when.
#[derive(Debug)]
pub(super) struct Sequence {
    /// When it comes, and what.
    pub(super) arrivals: Vec<(u64, Task)>,
    /// From the first to the last of them.
    pub(super) window: u64,
}

impl Sequence {
    /// As many tasks as there are, drawn with replacement, in the order of their creation, so
    /// spaced that they would demand this load if nobody waited.
    pub(super) fn new(tasks: &[Task], lifetimes: Lifetimes, wanted: Load, seed: u64) -> Self {
        let mut draws = Draws::new(seed);
        let mut drawn: Vec<Task> = tasks.iter().map(|_| tasks[draws.below(tasks.len())]).collect();
        drawn.sort_unstable();
        if lifetimes == Lifetimes::Drawn {
            drawn.iter_mut().for_each(|task| task.seconds = lifetime(&mut draws));
        }
        // The shorter the window, the more is demanded in each second of it.
        let longest: u64 = drawn.iter().map(|task| task.seconds).sum();
        let (mut low, mut high) = (1_u64, longest.max(2));
        for _ in 0..HALVINGS {
            let window = low.midpoint(high);
            let spaced = Self::spaced(&drawn, window);
            if spaced.offered() > wanted.milli() * u128::from(window) {
                low = window;
            } else {
                high = window;
            }
        }
        Self::spaced(&drawn, high)
    }

    fn spaced(tasks: &[Task], window: u64) -> Self {
        let last = (tasks.len() as u128 - 1).max(1);
        let at = |place: usize| (u128::from(window) * place as u128 / last) as u64;
        let arrivals = tasks.iter().enumerate().map(|(place, task)| (at(place), *task));
        Self { arrivals: arrivals.collect(), window }
    }

    /// Thousandths times seconds within the window, if nobody waited.
    fn offered(&self) -> u128 {
        let each = self.arrivals.iter().map(|(at, task)| {
            u128::from(task.milli) * u128::from(task.seconds.min(self.window - at))
        });
        each.sum()
    }
}

/// A lifetime in seconds, at least one.
fn lifetime(draws: &mut Draws) -> u64 {
    let unit = ((draws.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    (-unit.ln() * LIFETIME_S) as u64 + 1
}

#[cfg(test)]
mod tests {
    use super::{Lifetimes, Load, Sequence, Task, TasksError, parse};

    const HEAD: &str = "name,num_gpu,gpu_milli,creation_time,deletion_time\n";

    #[test]
    fn tasks_of_one_gpu_are_read() {
        let text = format!("{HEAD}a,1,460,10,110\nb,2,1000,0,9\nc,1,1000.0,5.0,5.0\nd,0,0,0,9\n");
        let task = |created, milli, seconds| Task { created, milli, seconds };
        assert_eq!(parse(&text), Ok(vec![task(10, 460, 100), task(5, 1_000, 1)]));
    }

    #[test]
    fn files_that_are_no_lists_are_refused_with_the_line() {
        let check = |text: &str, error| assert_eq!(parse(text), Err(error));
        check("", TasksError::Column("num_gpu"));
        check("num_gpu,gpu_milli,creation_time\n", TasksError::Column("deletion_time"));
        check(HEAD, TasksError::Empty);
        let field = |column| TasksError::Field { line: 2, column };
        check(&format!("{HEAD}a,1,1001,0,1\n"), field("gpu_milli"));
        check(&format!("{HEAD}a,1,0,0,1\n"), field("gpu_milli"));
        check(&format!("{HEAD}a,1,10,0\n"), field("deletion_time"));
    }

    #[test]
    fn spacing_gives_the_load() {
        let task = |created| Task { created, milli: 500, seconds: 60 + created % 7 };
        let tasks: Vec<Task> = (0..500).map(task).collect();
        let cases =
            [(100, Lifetimes::Recorded), (130, Lifetimes::Recorded), (100, Lifetimes::Drawn)];
        for (percent, lifetimes) in cases {
            let load = Load { gpus: 3, percent };
            let sequence = Sequence::new(&tasks, lifetimes, load, percent);
            let fleet = 3_000 * u128::from(sequence.window);
            let found = 100 * sequence.offered() / fleet;
            assert!(found.abs_diff(percent.into()) <= 1, "{found}");
            assert!(sequence.arrivals.is_sorted_by_key(|(at, task)| (*at, task.created)));
            assert_eq!(sequence.arrivals.last().map(|(at, _)| *at), Some(sequence.window));
        }
    }
}

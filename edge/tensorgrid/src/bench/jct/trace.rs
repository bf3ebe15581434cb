//! Recorded jobs, and what is drawn for them: deadlines and how wrong their estimates are.

/// The widest gang and the longest run that are read.
const GPUS_MAX: u16 = 4_096;
const DURATION_S_MAX: f64 = 1e8;
/// Deadlines lie so many times the duration after the submission: the first, and a number that is
/// exponentially distributed with mean 1 on top, at most the second. Drawn so, FIFO and FIFO with
/// backfill have the shares on time that were published for this trace.
const SLACK: (f64, f64) = (1.2, 10.0);
/// The longest and the shortest estimate, in seconds.
const ESTIMATE_S: (f64, f64) = (1.0, 1e9);

/// Why a file is no list of jobs.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TraceError {
    /// The first line does not name a column.
    #[error("the first line has no column {0}")]
    Column(&'static str),
    /// A field is missing, or is nothing that fits.
    #[error("line {line}: {column} is nothing that fits")]
    Field {
        /// Which line, from 1.
        line: usize,
        /// Which column.
        column: &'static str,
    },
    /// Nothing in it.
    #[error("there are no jobs")]
    Empty,
}

/// A job as it was recorded, times in milliseconds from the first submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Recorded {
    pub(super) submitted: u64,
    pub(super) duration: u64,
    pub(super) gpus: u16,
}

/// A job of one replay.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) submitted: u64,
    /// What nobody knows before it is done.
    pub(super) duration: u64,
    pub(super) gpus: u16,
    pub(super) deadline: u64,
    pub(super) estimate: u64,
}

/// Reads a list of jobs: timestamp, duration and num_gpus.
pub(super) fn parse(text: &str) -> Result<Vec<Recorded>, TraceError> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().ok_or(TraceError::Empty)?.split(',').collect();
    let place = |column: &'static str| {
        let found = names.iter().position(|name| name.trim() == column);
        found.ok_or(TraceError::Column(column))
    };
    let places = [place("timestamp")?, place("duration")?, place("num_gpus")?];
    let mut jobs = Vec::new();
    for (line, text) in (2..).zip(lines).filter(|(_, text)| !text.trim().is_empty()) {
        let fields: Vec<&str> = text.split(',').collect();
        let field = |place: usize| fields.get(places[place]).copied().unwrap_or("").trim();
        let wrong = |column: &'static str| TraceError::Field { line, column };
        let seconds = moment(field(0)).ok_or(wrong("timestamp"))?;
        let duration: f64 = field(1).parse().map_err(|_| wrong("duration"))?;
        if !(duration > 0.0 && duration <= DURATION_S_MAX) {
            return Err(wrong("duration"));
        }
        let gpus: u16 = field(2).parse().map_err(|_| wrong("num_gpus"))?;
        if gpus == 0 || gpus > GPUS_MAX {
            return Err(wrong("num_gpus"));
        }
        let (submitted, duration) = (seconds * 1_000, ((duration * 1_000.0) as u64).max(1));
        jobs.push(Recorded { submitted, duration, gpus });
    }
    let first = jobs.iter().map(|job| job.submitted).min().ok_or(TraceError::Empty)?;
    jobs.iter_mut().for_each(|job| job.submitted -= first);
    jobs.sort_unstable();
    Ok(jobs)
}

/// Seconds since 1970: a number, or year-month-day hour:minute:second.
fn moment(text: &str) -> Option<u64> {
    if let Ok(seconds) = text.parse::<u64>() {
        return (seconds < 1 << 40).then_some(seconds);
    }
    let (date, time) = text.split_once([' ', 'T'])?;
    let numbers = |text: &str, mark: char| -> Option<[u64; 3]> {
        let parts: Vec<u64> = text.split(mark).map_while(|part| part.parse().ok()).collect();
        parts.try_into().ok()
    };
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time.trim_end_matches('Z'), ':')?;
    let is_date =
        (1970..10_000).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_date || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Days from civil: years begin in March, so that the leap day is the last.
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    Some((days - 719_468) * 86_400 + hour * 3_600 + minute * 60 + second)
}

/// Draws deadlines and estimates. A deadline counts from the first round that can know of the job.
pub(super) fn draw(recorded: &[Recorded], seed: u64, sigma: f64, round: u64) -> Vec<Job> {
    let mut draws = Draws::new(seed);
    let jobs = recorded.iter().map(|job| {
        let slack = (SLACK.0 - draws.unit().max(1e-300).ln()).min(SLACK.1);
        let error = (sigma * draws.normal()).exp();
        let estimate_s = (job.duration as f64 / 1_000.0 * error).clamp(ESTIMATE_S.0, ESTIMATE_S.1);
        let known = job.submitted.next_multiple_of(round);
        Job {
            submitted: job.submitted,
            duration: job.duration,
            gpus: job.gpus,
            deadline: known + (job.duration as f64 * slack) as u64,
            estimate: (estimate_s * 1_000.0) as u64,
        }
    });
    jobs.collect()
}

/// Jobs made up in the manner of a research cluster, for when there is no file: most are short and
/// want one GPU, a few want most of the time. Together they want about 95 % of the GPUs for a week.
pub(super) fn stand_in(gpus: u32) -> Vec<Recorded> {
    let mut draws = Draws::new(0x5eed);
    let week = 7.0 * 86_400.0;
    let mut wanted = 0.95 * week * f64::from(gpus);
    let mut jobs = Vec::new();
    while wanted > 0.0 {
        let width = [1, 1, 1, 1, 1, 1, 1, 2, 4, 8][draws.below(10)].min(gpus as u16);
        let duration = (1_200.0 * (2.2 * draws.normal()).exp()).clamp(20.0, 3.0 * 86_400.0);
        wanted -= duration * f64::from(width);
        let submitted = (draws.unit() * week) as u64 * 1_000;
        jobs.push(Recorded { submitted, duration: duration as u64 * 1_000, gpus: width });
    }
    jobs.sort_unstable();
    jobs
}

/// Numbers that look random: splitmix64.
#[derive(Clone, Debug)]
pub(super) struct Draws(u64);

impl Draws {
    /// Those of a seed.
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(7_919).wrapping_add(1))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Between 0 and 1.
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Below a bound.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// Normally distributed (Box and Muller).
    pub(super) fn normal(&mut self) -> f64 {
        let (radius, angle) = (self.unit().max(1e-300), self.unit());
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }
}

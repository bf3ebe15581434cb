//! What no policy can give out on a sequence, whatever it knows and however it divides GPUs.
//!
//! A task takes some of a GPU, its footprint: any number such that what fits side by side on a GPU
//! has footprints of one GPU at most. Then the footprints of all that runs, times how long it runs,
//! are no more than the fleet has, from any moment on; and a task runs no longer than it lives and
//! than the window is open after it came. What is given out at most under these rules alone, with
//! tasks that may be stopped, split and moved at will, is found exactly: the limits are nested, so
//! taking the tasks that demand most for their footprint first is best. Every footprint gives a
//! bound; the least of some counts.

use super::replay::need;
use super::tasks::Sequence;
use tg_scheduler::packing::GPU_MILLI;

/// Footprints are mixtures in steps of one by so many.
const STEPS: u32 = 4;
/// Compute slices of a GPU.
const COMPUTE: u8 = 7;

/// How much the three footprints count that are mixed.
#[derive(Clone, Copy, Debug)]
struct Weights {
    /// Compute slices, of seven.
    compute: f64,
    /// Memory slices, of eight.
    memory: f64,
    /// Whether it is a large partition, of which a GPU has one: four slices or all.
    large: f64,
}

impl Weights {
    /// All mixtures.
    fn all() -> impl Iterator<Item = Self> {
        let part = |steps: u32| f64::from(steps) / f64::from(STEPS);
        (0..=STEPS).flat_map(move |large| {
            (0..=STEPS - large).map(move |compute| {
                let memory = part(STEPS - large - compute);
                Self { compute: part(compute), memory, large: part(large) }
            })
        })
    }

    /// The footprint of a task that needs so many compute slices.
    fn footprint(self, need: u8) -> f64 {
        let memory = match need {
            0..3 => need,
            3..COMPUTE => 4,
            COMPUTE.. => 8,
        };
        self.compute * f64::from(need) / f64::from(COMPUTE)
            + self.memory * f64::from(memory) / 8.0
            + self.large * if need >= 4 { 1.0 } else { 0.0 }
    }
}

/// The least bound that was found, as a share of the fleet.
pub(super) fn bound(sequence: &Sequence, gpus: u32) -> f64 {
    let most = Weights::all().map(|weights| given(sequence, gpus, weights));
    let all = f64::from(gpus) * f64::from(GPU_MILLI) * sequence.window as f64;
    most.fold(f64::INFINITY, f64::min) / all
}

/// The most that is given out under one footprint, in thousandths times seconds.
fn given(sequence: &Sequence, gpus: u32, weights: Weights) -> f64 {
    let footprint = |place: usize| weights.footprint(need(sequence.arrivals[place].1.milli));
    let worth = |place: usize| f64::from(sequence.arrivals[place].1.milli) / footprint(place);
    let mut order: Vec<usize> = (0..sequence.arrivals.len()).collect();
    order.sort_by(|one, other| worth(*other).total_cmp(&worth(*one)));
    // What the fleet has left for all that comes from each arrival on.
    let left_at = |(at, _): &(u64, _)| f64::from(gpus) * (sequence.window - at) as f64;
    let mut left: Vec<f64> = sequence.arrivals.iter().map(left_at).collect();
    let mut given = 0.0;
    for place in order {
        let (at, task) = sequence.arrivals[place];
        let seconds = task.seconds.min(sequence.window - at) as f64;
        let wanted = footprint(place) * seconds;
        if wanted == 0.0 {
            given += f64::from(task.milli) * seconds;
            continue;
        }
        let room = left[..=place].iter().copied().fold(f64::INFINITY, f64::min);
        let taken = wanted.min(room);
        if taken > 0.0 {
            left[..=place].iter_mut().for_each(|left| *left -= taken);
            given += taken * worth(place);
        }
    }
    given
}

#[cfg(test)]
mod tests {
    use super::{Weights, bound};
    use crate::bench::draws::Draws;
    use crate::bench::mig::fixed::divisions;
    use crate::bench::mig::replay;
    use crate::bench::mig::tasks::{Sequence, Task};

    #[test]
    fn footprints_of_what_fits_are_one_gpu_at_most() {
        let mut count = 0;
        for weights in Weights::all() {
            for division in divisions() {
                let sum: f64 = division.iter().map(|size| weights.footprint(*size)).sum();
                assert!(sum <= 1.0 + 1e-9, "{division:?} {weights:?}");
            }
            count += 1;
        }
        assert_eq!(count, 15);
    }

    #[test]
    fn bound_is_exact_where_it_can_be_told() {
        let share = |tasks: &[(u64, u16, u64)], window| {
            let arrivals = tasks.iter().map(|&(at, milli, seconds)| {
                let created = at;
                (at, Task { created, milli, seconds })
            });
            bound(&Sequence { arrivals: arrivals.collect(), window }, 1)
        };
        let check = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found}");
        check(share(&[(0, 1_000, 50)], 100), 0.5);
        check(share(&[(0, 460, 500)], 100), 0.46);
        check(share(&[(0, 460, 500), (0, 460, 500)], 100), 0.46);
        check(share(&[(0, 570, 500), (0, 420, 500)], 100), 0.99);
        // What comes late finds half of the time gone.
        check(share(&[(0, 600, 100), (50, 1_000, 100)], 100), 0.8);
    }

    /// Goal: nobody gives out more. Method: random tasks, all policies that there are.
    #[test]
    fn no_policy_exceeds_the_bound() {
        let mut draws = Draws::new(5);
        for _ in 0..20 {
            let task = |draws: &mut Draws| {
                let milli = [100, 250, 400, 460, 810, 1_000][draws.below(6)];
                Task { created: 0, milli, seconds: 50 + draws.below(400) as u64 }
            };
            let arrivals = (0..150).map(|place| (10 * place, task(&mut draws))).collect();
            let sequence = Sequence { arrivals, window: 1_490 };
            let most = bound(&sequence, 3) + 1e-9;
            assert!(replay::ours(&sequence, 3).share(3, 1_490) <= most);
            assert!(replay::indexed(&sequence, 3).share(3, 1_490) <= most);
        }
    }
}

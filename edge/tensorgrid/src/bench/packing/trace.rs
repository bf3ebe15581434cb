//! Machines and tasks of a recorded cluster, and the order in which tasks come.

use super::super::draws::Draws;
use std::collections::BTreeMap;
use tg_scheduler::packing::{Demand, Gpus, Models, Shape};

/// Tasks are drawn until they want so much of all GPUs.
const ARRIVED_PERCENT: u64 = 130;
/// Models of GPUs that can be told apart.
const MODELS_MAX: u8 = 64;

/// Why a file is no list of machines or tasks.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TraceError {
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
    /// More models of GPUs than can be told apart.
    #[error("line {0}: more than {MODELS_MAX} models of GPUs")]
    Models(usize),
    /// Nothing in it.
    #[error("there are no lines")]
    Empty,
}

/// Machines of a cluster.
#[derive(Debug)]
pub(super) struct Cluster {
    /// By name, as the papers order them.
    pub(super) shapes: Vec<Shape>,
    models: BTreeMap<String, u8>,
}

impl Cluster {
    /// Reads a list of machines: sn, cpu_milli, memory_mib, gpu, model.
    pub(super) fn parse(text: &str) -> Result<Self, TraceError> {
        let mut models: BTreeMap<String, u8> = BTreeMap::new();
        let mut named = Vec::new();
        let table = Table::parse(text, &["sn", "cpu_milli", "memory_mib", "gpu", "model"])?;
        for row in table.rows() {
            let next = u8::try_from(models.len()).ok().filter(|next| *next < MODELS_MAX);
            let next = next.ok_or(TraceError::Models(row.line))?;
            let shape = Shape {
                model: *models.entry(row.text("model").to_owned()).or_insert(next),
                gpus: row.number("gpu")?,
                cpu_milli: row.number("cpu_milli")?,
                memory_mib: row.number("memory_mib")?,
            };
            named.push((row.text("sn").to_owned(), shape));
        }
        named.sort();
        Ok(Self { shapes: named.into_iter().map(|(_, shape)| shape).collect(), models })
    }

    /// All GPUs, in thousandths.
    pub(super) fn gpu_milli(&self) -> u64 {
        self.shapes.iter().map(|shape| u64::from(shape.gpu_milli())).sum()
    }

    /// Reads a list of tasks: cpu_milli, memory_mib, num_gpu, gpu_milli and, where it is there,
    /// gpu_spec, the models that will do.
    pub(super) fn tasks(&self, text: &str) -> Result<Vec<Demand>, TraceError> {
        let table = Table::parse(text, &["cpu_milli", "memory_mib", "num_gpu", "gpu_milli"])?;
        table.rows().map(|row| self.task(&row)).collect()
    }

    fn task(&self, row: &Row<'_>) -> Result<Demand, TraceError> {
        let count: u8 = row.number("num_gpu")?;
        let share = || {
            let milli: f64 = row.number("gpu_milli")?;
            Ok(milli as u16)
        };
        let gpus = Gpus::new(count, if count == 0 { 0 } else { share()? });
        let wanted = row.text("gpu_spec");
        let models = if count == 0 || wanted.is_empty() {
            Models::ANY
        } else {
            let known = wanted.split('|').filter_map(|name| self.models.get(name));
            known.fold(Models::NONE, |models, model| models.with(*model))
        };
        let (cpu_milli, memory_mib) = (row.number("cpu_milli")?, row.number("memory_mib")?);
        Ok(Demand { gpus, models, cpu_milli, memory_mib })
    }
}

/// Lines of fields whose names stand in the first.
struct Table<'a> {
    names: Vec<&'a str>,
    lines: Vec<Vec<&'a str>>,
}

impl<'a> Table<'a> {
    /// Reads a table that must have these columns.
    fn parse(text: &'a str, columns: &[&'static str]) -> Result<Self, TraceError> {
        let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<&str>>());
        let names = lines.next().ok_or(TraceError::Empty)?;
        if let Some(missing) = columns.iter().find(|column| !names.contains(column)) {
            return Err(TraceError::Column(missing));
        }
        let lines: Vec<Vec<&str>> = lines.collect();
        if lines.is_empty() { Err(TraceError::Empty) } else { Ok(Self { names, lines }) }
    }

    fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let numbered = (2..).zip(&self.lines);
        numbered.map(|(line, fields)| Row { line, names: &self.names, fields })
    }
}

/// A line of a table.
struct Row<'a> {
    /// Which, from 1.
    line: usize,
    names: &'a [&'a str],
    fields: &'a [&'a str],
}

impl<'a> Row<'a> {
    /// A field, empty if it is not there.
    fn text(&self, column: &str) -> &'a str {
        let place = self.names.iter().position(|name| *name == column);
        place.and_then(|place| self.fields.get(place)).copied().unwrap_or("")
    }

    fn number<T: std::str::FromStr>(&self, column: &'static str) -> Result<T, TraceError> {
        self.text(column).parse().map_err(|_| TraceError::Field { line: self.line, column })
    }
}

/// The order in which tasks come: all of the trace, shuffled, then tasks drawn from it until they
/// want more than there is.
pub(super) fn arrivals(tasks: &[Demand], gpu_milli: u64, draws: &mut Draws) -> Vec<Demand> {
    let mut all = tasks.to_vec();
    draws.shuffle(&mut all);
    let mut wanted: u64 = tasks.iter().map(|task| u64::from(task.gpus.milli())).sum();
    let enough = gpu_milli * ARRIVED_PERCENT / 100;
    // A trace without GPUs would never want enough.
    while wanted > 0 {
        let task = tasks[draws.below(tasks.len())];
        if wanted + u64::from(task.gpus.each()) > enough {
            break;
        }
        wanted += u64::from(task.gpus.milli());
        all.push(task);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINES: &str = "sn,cpu_milli,memory_mib,gpu,model\nb,2000,20,2,T4\na,1000,10,8,V100\n";

    #[test]
    fn machines_stand_in_the_order_of_their_names() {
        let cluster = Cluster::parse(MACHINES).expect("two machines");
        let gpus: Vec<u8> = cluster.shapes.iter().map(|shape| shape.gpus).collect();
        assert_eq!((gpus, cluster.gpu_milli()), (vec![8, 2], 10_000));
    }

    #[test]
    fn tasks_name_shares_and_models() {
        let cluster = Cluster::parse(MACHINES).expect("two machines");
        let text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n\
                    x,1,2,1,460,\ny,1,2,2,1000,V100|other\nz,1,2,0,0,T4\n";
        let tasks = cluster.tasks(text).expect("three tasks");
        let gpus: Vec<Gpus> = tasks.iter().map(|task| task.gpus).collect();
        assert_eq!(gpus, [Gpus::Share(460), Gpus::Whole(2), Gpus::None]);
        let models: Vec<Models> = tasks.iter().map(|task| task.models).collect();
        assert_eq!(models, [Models::ANY, Models::NONE.with(1), Models::ANY]);
    }

    #[test]
    fn files_that_are_no_lists_are_refused_with_the_line() {
        let check = |text: &str, error: TraceError| {
            assert_eq!(Cluster::parse(text).map(|_| ()), Err(error));
        };
        check("", TraceError::Empty);
        check("sn,cpu_milli\nx,1\n", TraceError::Column("memory_mib"));
        let head = "sn,cpu_milli,memory_mib,gpu,model\n";
        check(head, TraceError::Empty);
        check(&format!("{head}x,1,2,300,T4\n"), TraceError::Field { line: 2, column: "gpu" });
        check(&format!("{head}x,1\n"), TraceError::Field { line: 2, column: "gpu" });
        let many: String = (0..65).map(|number| format!("x{number},1,2,1,m{number}\n")).collect();
        check(&format!("{head}{many}"), TraceError::Models(66));
    }

    #[test]
    fn arrivals_are_all_tasks_then_more_until_enough_is_wanted() {
        let cluster = Cluster::parse(MACHINES).expect("two machines");
        let text = "cpu_milli,memory_mib,num_gpu,gpu_milli\n1,1,1,1000\n2,1,1,500\n3,1,0,0\n";
        let tasks = cluster.tasks(text).expect("three tasks");
        let all = arrivals(&tasks, cluster.gpu_milli(), &mut Draws::new(1));
        let mut first = all[..tasks.len()].to_vec();
        first.sort_unstable();
        let mut sorted = tasks.clone();
        sorted.sort_unstable();
        assert_eq!(first, sorted);
        let wanted: u32 = all.iter().map(|task| task.gpus.milli()).sum();
        assert!((12_000..=13_000).contains(&wanted), "{wanted}");
        let none = arrivals(&tasks[2..], cluster.gpu_milli(), &mut Draws::new(1));
        assert_eq!(none, tasks[2..]);
    }
}

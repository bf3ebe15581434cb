//! Who defines what, what is needed, and in which order.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::ImportError;
use crate::proto::{GraphProto, NodeProto};

/// What defines a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The input with this position in the file.
    Input(usize),
    /// The initialiser with this position in the file.
    Initializer(usize),
    /// The node with this position in the file.
    Node(usize),
}

/// What defines each value, by name.
#[derive(Debug)]
pub(super) struct Sources(BTreeMap<String, Source>);

/// The node's name, or that of its first result.
pub(super) fn node_name(node: &NodeProto) -> &str {
    if node.name.is_empty() { node.outputs.first().map_or("", String::as_str) } else { &node.name }
}

impl Sources {
    /// Refuses values that are defined twice. An initialiser may be declared as an input.
    pub(super) fn index(graph: &GraphProto) -> Result<Self, ImportError> {
        let mut sources = BTreeMap::new();
        let mut define = |name: &str, source| {
            if name.is_empty() || sources.insert(name.to_owned(), source).is_none() {
                return Ok(());
            }
            Err(ImportError::Duplicate { name: name.to_owned() })
        };
        for (index, tensor) in graph.initializers.iter().enumerate() {
            define(&tensor.name, Source::Initializer(index))?;
        }
        for (index, node) in graph.nodes.iter().enumerate() {
            for name in &node.outputs {
                define(name, Source::Node(index))?;
            }
        }
        for (index, input) in graph.inputs.iter().enumerate() {
            match sources.get(&input.name) {
                Some(Source::Initializer(_)) => {}
                Some(Source::Input(_) | Source::Node(_)) => {
                    return Err(ImportError::Duplicate { name: input.name.clone() });
                }
                None if input.name.is_empty() => {}
                None => {
                    sources.insert(input.name.clone(), Source::Input(index));
                }
            }
        }
        Ok(Self(sources))
    }

    /// What defines a value.
    pub(super) fn get(&self, name: &str) -> Option<Source> {
        self.0.get(name).copied()
    }

    /// The nodes that the outputs need, each after those it needs itself, otherwise in the order
    /// of the file.
    pub(super) fn order(&self, graph: &GraphProto) -> Result<Vec<usize>, ImportError> {
        let needed = self.needed(graph)?;
        let mut waiting_for: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        let mut users: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for index in &needed {
            let needs: BTreeSet<usize> = self.needs(graph, *index).collect();
            for need in &needs {
                users.entry(*need).or_default().push(*index);
            }
            waiting_for.insert(*index, needs);
        }
        let ready = waiting_for.iter().filter(|(_, needs)| needs.is_empty());
        let mut ready: BTreeSet<usize> = ready.map(|(index, _)| *index).collect();
        let mut order = Vec::with_capacity(needed.len());
        while let Some(index) = ready.pop_first() {
            waiting_for.remove(&index);
            order.push(index);
            for user in users.get(&index).into_iter().flatten() {
                if let Some(needs) = waiting_for.get_mut(user) {
                    needs.remove(&index);
                    if needs.is_empty() {
                        ready.insert(*user);
                    }
                }
            }
        }
        match waiting_for.keys().next().and_then(|index| graph.nodes.get(*index)) {
            Some(node) => Err(ImportError::Cycle { node: node_name(node).to_owned() }),
            None => Ok(order),
        }
    }

    /// The names that needed nodes and outputs use.
    pub(super) fn used(&self, graph: &GraphProto, order: &[usize]) -> BTreeSet<String> {
        let nodes = order.iter().filter_map(|index| graph.nodes.get(*index));
        let operands = nodes.flat_map(|node| node.inputs.iter());
        operands.chain(graph.outputs.iter().map(|output| &output.name)).cloned().collect()
    }

    /// The nodes that compute a node's operands.
    fn needs(&self, graph: &GraphProto, index: usize) -> impl Iterator<Item = usize> {
        let operands = graph.nodes.get(index).map_or(&[][..], |node| node.inputs.as_slice());
        operands.iter().filter_map(|name| match self.get(name) {
            Some(Source::Node(need)) => Some(need),
            Some(Source::Input(_) | Source::Initializer(_)) | None => None,
        })
    }

    fn needed(&self, graph: &GraphProto) -> Result<BTreeSet<usize>, ImportError> {
        if graph.outputs.is_empty() {
            return Err(ImportError::NoOutputs);
        }
        let mut needed = BTreeSet::new();
        let mut open = Vec::new();
        let undefined = |name: &str, user: &str| ImportError::Undefined {
            name: name.to_owned(),
            user: user.to_owned(),
        };
        for output in &graph.outputs {
            match self.get(&output.name) {
                Some(Source::Node(index)) => open.push(index),
                Some(Source::Input(_) | Source::Initializer(_)) => {}
                None => return Err(undefined(&output.name, &output.name)),
            }
        }
        while let Some(index) = open.pop() {
            if !needed.insert(index) {
                continue;
            }
            let Some(node) = graph.nodes.get(index) else { continue };
            let missing = |name: &&String| !name.is_empty() && self.get(name).is_none();
            if let Some(name) = node.inputs.iter().find(missing) {
                return Err(undefined(name, node_name(node)));
            }
            open.extend(self.needs(graph, index));
        }
        Ok(needed)
    }
}

//! A checked graph: every shape known, every constant computed, every node understood.
//!
//! Invariants, which [`Graph::read`] establishes and nothing can change afterwards:
//! - nodes stand in an order in which each comes after those it needs;
//! - a node has at least one operand that is not constant, or it would have been computed;
//! - values are bounded in size, and those that depend on the data are not empty;
//! - the shapes and kinds of a node's operands and results fit its operation;
//! - there is nothing that the outputs do not need, except inputs.

mod order;

use std::collections::BTreeMap;

use tg_tensor::{Array, Data};

use crate::dtype::{Dtype, ElementKind};
use crate::error::{ImportError, NodeError};
use crate::expand::expand;
use crate::float::Engine;
use crate::fold;
use crate::op::{Context, Meaning, OPSET_MAX, OPSET_MIN, Op, Operand, parse};
use crate::proto::{
    DimensionProto, ELEMENTS_MAX, FILE_BYTES_MAX, ModelProto, NodeProto, TensorProto,
    ValueInfoProto, finite,
};
use crate::shape::{Operands, Type, elements, infer};
use order::{Source, Sources};

/// Which value of a graph. Only meaningful together with the graph it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ValueId(usize);

impl ValueId {
    /// The value's position in [`Graph::values`].
    #[must_use]
    pub const fn index(self) -> usize {
        self.0
    }

    /// The value at a position in [`Graph::values`].
    pub(crate) const fn from_index(index: usize) -> Self {
        Self(index)
    }
}

/// Anything that is computed, given or constant.
#[derive(Clone, Debug)]
pub struct Value {
    /// The name in the file. Empty for a result that nobody wants.
    pub name: String,
    /// What its elements are.
    pub dtype: Dtype,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its elements, if they do not depend on the data.
    pub constant: Option<Array>,
    /// How its elements came from codes, if it is a constant that was stored quantised.
    pub quantised: Option<Quantised>,
}

/// The codes that a constant was computed from: `(codes - zero_point) · scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantised {
    /// The codes, a constant.
    pub codes: ValueId,
    /// One scale, or one for each index along the axis; a constant.
    pub scale: ValueId,
    /// The zero point, a constant of the scale's shape; zero if there is none.
    pub zero_point: Option<ValueId>,
    /// The axis along which scales differ.
    pub axis: usize,
}

/// One operation on values.
#[derive(Clone, Debug)]
pub struct Node {
    /// The node's name, or that of its first result.
    pub name: String,
    /// What it does.
    pub op: Op,
    /// The operands, nothing where an optional one is left out.
    pub inputs: Vec<Option<ValueId>>,
    /// The results.
    pub outputs: Vec<ValueId>,
    /// The node as it stands in the file, or as an abbreviation was written out.
    pub source: NodeProto,
}

/// How a file is to be read.
#[derive(Clone, Debug)]
pub struct Options {
    /// Shapes for inputs, by name. Where nothing is given, the declared shape counts.
    pub shapes: BTreeMap<String, Vec<usize>>,
    /// The side that stands for one that is not declared.
    pub free_side: usize,
    /// What a file may ask for.
    pub limits: Limits,
}

/// What a file may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the file.
    pub file_bytes: usize,
    /// Elements of one value.
    pub elements: usize,
    /// Elements of all values together.
    pub elements_total: usize,
    /// Elements of all constants that are computed while importing: they take memory.
    pub folded_elements: usize,
    /// Steps that computing constants may take.
    pub folded_steps: u64,
}

impl Default for Limits {
    /// 1 GiB of file, 2^28 elements a value (1 GiB of floats), 2^32 in all, 2^26 in computed
    /// constants (512 MiB at most) and 2^34 steps for them, which take some seconds.
    fn default() -> Self {
        Self {
            file_bytes: FILE_BYTES_MAX,
            elements: ELEMENTS_MAX,
            elements_total: 1 << 32,
            folded_elements: 1 << 26,
            folded_steps: 1 << 34,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self { shapes: BTreeMap::new(), free_side: 1, limits: Limits::default() }
    }
}

/// A checked graph.
#[derive(Clone, Debug)]
pub struct Graph {
    inputs: Vec<ValueId>,
    outputs: Vec<ValueId>,
    values: Vec<Value>,
    nodes: Vec<Node>,
    /// For each value, the node that computes it.
    producers: Vec<Option<usize>>,
    /// For each value, the nodes that use it, ascending.
    consumers: Vec<Vec<usize>>,
}

impl Graph {
    /// Reads a file.
    pub fn read(bytes: &[u8], options: &Options) -> Result<Self, ImportError> {
        let model = ModelProto::read(bytes, options.limits.file_bytes)?;
        let standard = |domain: &str| matches!(domain, "" | "ai.onnx");
        let found = model.opsets.iter().find(|opset| standard(&opset.domain));
        let opset = found.map(|opset| opset.version);
        let opset = opset
            .filter(|version| (OPSET_MIN..=OPSET_MAX).contains(version))
            .ok_or(ImportError::Opset { found: opset, min: OPSET_MIN, max: OPSET_MAX })?;
        let mut graph = model.graph;
        graph.nodes = expand(graph.nodes);
        let sources = Sources::index(&graph)?;
        let order = sources.order(&graph)?;

        let mut builder = Builder::new(options.limits, opset);
        builder.inputs(&graph.inputs, &sources, options)?;
        builder.used = sources.used(&graph, &order);
        for index in order {
            let node = graph.nodes.get_mut(index).map(std::mem::take).unwrap_or_default();
            for name in &node.inputs {
                builder.initializer(name, &sources, &mut graph.initializers)?;
            }
            builder.node(node)?;
        }
        for output in &graph.outputs {
            builder.initializer(&output.name, &sources, &mut graph.initializers)?;
            let id = builder.names.get(&output.name).copied();
            let (name, user) = (output.name.clone(), output.name.clone());
            builder.outputs.push(id.ok_or(ImportError::Undefined { name, user })?);
        }
        Ok(builder.finish())
    }

    /// What has to be given, in the order of the file.
    #[must_use]
    pub fn inputs(&self) -> &[ValueId] {
        &self.inputs
    }

    /// What is computed, in the order of the file.
    #[must_use]
    pub fn outputs(&self) -> &[ValueId] {
        &self.outputs
    }

    /// All values.
    #[must_use]
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// All operations, each after those it needs.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// One value.
    #[must_use]
    pub fn value(&self, id: ValueId) -> &Value {
        self.values.get(id.0).expect("an id is used with the graph it comes from")
    }

    /// The shape of a value.
    #[must_use]
    pub fn dims(&self, id: ValueId) -> &[usize] {
        &self.value(id).shape
    }

    /// The constant behind a value, if it is one.
    #[must_use]
    pub fn constant(&self, id: ValueId) -> Option<&Array> {
        self.value(id).constant.as_ref()
    }

    /// The value of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<ValueId> {
        self.values.iter().position(|value| value.name == name).map(ValueId)
    }

    /// The position of the node that computes a value; nothing for inputs and constants.
    #[must_use]
    pub fn producer(&self, id: ValueId) -> Option<usize> {
        self.producers.get(id.0).copied().flatten()
    }

    /// The positions of the nodes that use a value, ascending.
    #[must_use]
    pub fn consumers(&self, id: ValueId) -> &[usize] {
        self.consumers.get(id.0).map_or(&[], Vec::as_slice)
    }
}

/// A graph in the making.
struct Builder {
    limits: Limits,
    opset: i64,
    engine: Engine,
    names: BTreeMap<String, ValueId>,
    used: std::collections::BTreeSet<String>,
    inputs: Vec<ValueId>,
    outputs: Vec<ValueId>,
    values: Vec<Value>,
    nodes: Vec<Node>,
    elements_left: usize,
    folded_left: usize,
    steps_left: u64,
}

impl Builder {
    fn new(limits: Limits, opset: i64) -> Self {
        Self {
            limits,
            opset,
            engine: Engine::default(),
            names: BTreeMap::new(),
            used: std::collections::BTreeSet::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            values: Vec::new(),
            nodes: Vec::new(),
            elements_left: limits.elements_total,
            folded_left: limits.folded_elements,
            steps_left: limits.folded_steps,
        }
    }

    fn add(&mut self, value: Value) -> ValueId {
        let id = ValueId(self.values.len());
        if !value.name.is_empty() {
            self.names.insert(value.name.clone(), id);
        }
        self.values.push(value);
        id
    }

    fn inputs(
        &mut self,
        declared: &[ValueInfoProto],
        sources: &Sources,
        options: &Options,
    ) -> Result<(), ImportError> {
        for (index, input) in declared.iter().enumerate() {
            // Old files declare initialisers as inputs as well.
            if sources.get(&input.name) != Some(Source::Input(index)) {
                continue;
            }
            let name = input.name.clone();
            let element = input.element;
            let kind = ElementKind::from_number(element)
                .ok_or_else(|| ImportError::InputElement { name: name.clone(), element })?;
            let shape = input_shape(input, options)?;
            let max = self.limits.elements;
            let count = elements(&shape, max).ok().filter(|count| *count > 0);
            let left = count.and_then(|count| self.elements_left.checked_sub(count));
            let Some(left) = left else { return Err(ImportError::InputSize { name, shape, max }) };
            self.elements_left = left;
            let dtype = kind.dtype();
            let id = self.add(Value { name, dtype, shape, constant: None, quantised: None });
            self.inputs.push(id);
        }
        let known = |name: &&String| self.names.contains_key(*name);
        match options.shapes.keys().find(|name| !known(name)) {
            Some(name) => Err(ImportError::InputUnknown { name: name.clone() }),
            None => Ok(()),
        }
    }

    /// Makes a value of an initialiser when it is first needed. The file's copy is dropped.
    fn initializer(
        &mut self,
        name: &str,
        sources: &Sources,
        initializers: &mut [TensorProto],
    ) -> Result<(), ImportError> {
        let Some(Source::Initializer(index)) = sources.get(name) else { return Ok(()) };
        if self.names.contains_key(name) {
            return Ok(());
        }
        let tensor = initializers.get_mut(index).map(std::mem::take).unwrap_or_default();
        let wrong = |source| ImportError::Initializer { name: name.to_owned(), source };
        let dtype = tensor.kind().map_err(wrong)?.dtype();
        let array = tensor.to_array(self.limits.elements).map_err(wrong)?;
        let (name, shape) = (name.to_owned(), array.shape().to_vec());
        self.add(Value { name, dtype, shape, constant: Some(array), quantised: None });
        Ok(())
    }

    fn node(&mut self, node: NodeProto) -> Result<(), ImportError> {
        let name = order::node_name(&node).to_owned();
        let operator = node.operator.clone();
        self.resolve(node).map_err(|source| ImportError::Node { node: name, operator, source })
    }

    fn resolve(&mut self, node: NodeProto) -> Result<(), NodeError> {
        let mut ids: Vec<Option<ValueId>> =
            node.inputs.iter().map(|name| self.names.get(name).copied()).collect();
        while ids.last() == Some(&None) {
            ids.pop();
        }
        // A name without a value is a result that its operator does not give.
        for (index, name) in node.inputs.iter().enumerate() {
            if !name.is_empty() && ids.get(index).copied().flatten().is_none() {
                return Err(NodeError::OperandMissing { index });
            }
        }
        let operand = |id: &Option<ValueId>| {
            let id = (*id)?;
            let value = self.values.get(id.0)?;
            let (dtype, shape) = (value.dtype, value.shape.as_slice());
            Some(Operand { id, dtype, shape, constant: value.constant.as_ref() })
        };
        let context = Context {
            node: &node,
            opset: self.opset,
            operands: ids.iter().map(operand).collect(),
            elements_max: self.limits.elements.min(self.folded_left),
        };
        match parse(&context)? {
            Meaning::Constant(dtype, array) => {
                let kind = Type { dtype, shape: array.shape().to_vec() };
                self.constants(&node, vec![kind], vec![array], None)
            }
            Meaning::Operation(op, inputs) => self.operation(node, op, inputs),
        }
    }

    fn operation(
        &mut self,
        node: NodeProto,
        op: Op,
        inputs: Vec<Option<ValueId>>,
    ) -> Result<(), NodeError> {
        let value = |id: &Option<ValueId>| id.and_then(|id| self.values.get(id.0));
        let kind = |value: &Value| Type { dtype: value.dtype, shape: value.shape.clone() };
        let operands: Vec<Option<Type>> =
            inputs.iter().map(|input| value(input).map(kind)).collect();
        let results = infer(&op, &Operands(&operands))?;
        check_indices(&op, &inputs, &self.values)?;
        let mut total = 0_usize;
        for result in &results {
            total = total.saturating_add(elements(&result.shape, self.limits.elements)?);
        }
        let dynamic = |id: &ValueId| value(&Some(*id)).is_none_or(|value| value.constant.is_none());
        if !inputs.iter().flatten().any(dynamic) {
            let constant = |(kind, id): (Option<Type>, &Option<ValueId>)| {
                Some((kind?, value(id)?.constant.as_ref()?))
            };
            let operands: Vec<fold::Operand<'_>> =
                operands.into_iter().zip(&inputs).map(constant).collect();
            let max = self.limits.folded_elements;
            self.folded_left.checked_sub(total).ok_or(NodeError::SizeTotal { max })?;
            let steps = self.steps_left.checked_sub(fold::work(&op, &operands, &results));
            let max = self.limits.folded_steps;
            self.steps_left = steps.ok_or(NodeError::Work { max })?;
            let arrays = fold::evaluate(&self.engine, &op, &operands, &results)?;
            let quantised = quantised(&op, &inputs);
            return self.constants(&node, results, arrays, quantised);
        }
        let max = self.limits.elements_total;
        let left = self.elements_left.checked_sub(total).ok_or(NodeError::SizeTotal { max })?;
        if let Some(empty) = results.iter().find(|result| result.shape.contains(&0)) {
            return Err(NodeError::Empty { shape: empty.shape.clone() });
        }
        self.check_results(&node, results.len())?;
        self.elements_left = left;
        let outputs = self.results(&node, results, std::iter::repeat_with(|| None), None);
        let name = order::node_name(&node).to_owned();
        self.nodes.push(Node { name, op, inputs, outputs, source: node });
        Ok(())
    }

    /// Adds constants that were computed. What is not a number is refused and infinities are
    /// replaced, as in initialisers.
    fn constants(
        &mut self,
        node: &NodeProto,
        kinds: Vec<Type>,
        arrays: Vec<Array>,
        quantised: Option<Quantised>,
    ) -> Result<(), NodeError> {
        self.check_results(node, kinds.len())?;
        let mut checked = Vec::with_capacity(arrays.len());
        for array in arrays {
            let max = self.limits.folded_elements;
            let left = self.folded_left.checked_sub(array.len());
            self.folded_left = left.ok_or(NodeError::SizeTotal { max })?;
            let broken = matches!(array.data(), Data::Float(values)
                if values.iter().any(|value| !value.is_finite()));
            checked.push(Some(match array.data() {
                Data::Float(values) if broken => {
                    Array::new(array.shape().to_vec(), Data::Float(finite(values.clone())?))?
                }
                Data::Float(_) | Data::Int(_) => array,
            }));
        }
        self.results(node, kinds, checked.into_iter(), quantised);
        Ok(())
    }

    fn results(
        &mut self,
        node: &NodeProto,
        kinds: Vec<Type>,
        constants: impl Iterator<Item = Option<Array>>,
        quantised: Option<Quantised>,
    ) -> Vec<ValueId> {
        let mut ids = Vec::with_capacity(kinds.len());
        for (index, (kind, constant)) in kinds.into_iter().zip(constants).enumerate() {
            let name = node.outputs.get(index).cloned().unwrap_or_default();
            let Type { dtype, shape } = kind;
            ids.push(self.add(Value { name, dtype, shape, constant, quantised }));
        }
        ids
    }

    /// Refuses a node of which a result is used that it does not give, such as the mask of a
    /// dropout. Naming one that nobody uses does no harm.
    fn check_results(&self, node: &NodeProto, given: usize) -> Result<(), NodeError> {
        let surplus = node.outputs.iter().skip(given);
        if surplus.into_iter().any(|name| self.used.contains(name)) {
            return Err(NodeError::ResultCount { found: node.outputs.len(), given });
        }
        Ok(())
    }

    /// Drops constants that were only needed on the way and finds out who uses what.
    fn finish(self) -> Graph {
        let mut needed = vec![false; self.values.len()];
        let mut mark = |id: ValueId| {
            if let Some(place) = needed.get_mut(id.0) {
                *place = true;
            }
        };
        for id in self.inputs.iter().chain(&self.outputs) {
            mark(*id);
        }
        for node in &self.nodes {
            node.inputs.iter().flatten().chain(&node.outputs).for_each(|id| mark(*id));
        }
        // What codes a needed constant came from is needed too. One step is enough: codes, scales
        // and zero points are looked at themselves, not where they came from.
        let origins: Vec<Quantised> = self
            .values
            .iter()
            .zip(&needed)
            .filter_map(|(value, needed)| value.quantised.filter(|_| *needed))
            .collect();
        for origin in &origins {
            let ids = [Some(origin.codes), Some(origin.scale), origin.zero_point];
            for id in ids.into_iter().flatten() {
                if let Some(place) = needed.get_mut(id.0) {
                    *place = true;
                }
            }
        }
        self.compact(&needed)
    }

    fn compact(self, needed: &[bool]) -> Graph {
        let mut next = 0;
        let places: Vec<Option<ValueId>> = needed
            .iter()
            .map(|needed| {
                needed.then(|| {
                    next += 1;
                    ValueId(next - 1)
                })
            })
            .collect();
        let place = |id: ValueId| places.get(id.0).copied().flatten();
        let all =
            |ids: Vec<ValueId>| -> Vec<ValueId> { ids.into_iter().filter_map(place).collect() };
        let origin = |origin: Quantised| {
            let (codes, scale) = (place(origin.codes)?, place(origin.scale)?);
            let zero_point = origin.zero_point.and_then(place);
            Some(Quantised { codes, scale, zero_point, axis: origin.axis })
        };
        let kept = self.values.into_iter().zip(needed).filter(|(_, needed)| **needed);
        let values: Vec<Value> = kept
            .map(|(value, _)| Value { quantised: value.quantised.and_then(origin), ..value })
            .collect();
        let mut producers = vec![None; values.len()];
        let mut consumers: Vec<Vec<usize>> = vec![Vec::new(); values.len()];
        let mut nodes = Vec::with_capacity(self.nodes.len());
        for (index, mut node) in self.nodes.into_iter().enumerate() {
            node.inputs = node.inputs.into_iter().map(|input| input.and_then(place)).collect();
            node.outputs = all(node.outputs);
            for id in &node.outputs {
                if let Some(producer) = producers.get_mut(id.0) {
                    *producer = Some(index);
                }
            }
            for id in node.inputs.iter().flatten() {
                if let Some(users) =
                    consumers.get_mut(id.0).filter(|users| !users.ends_with(&[index]))
                {
                    users.push(index);
                }
            }
            nodes.push(node);
        }
        let (inputs, outputs) = (all(self.inputs), all(self.outputs));
        Graph { inputs, outputs, values, nodes, producers, consumers }
    }
}

/// The codes behind a dequantised constant.
fn quantised(op: &Op, inputs: &[Option<ValueId>]) -> Option<Quantised> {
    let Op::Dequantize { axis } = op else { return None };
    let input = |index: usize| inputs.get(index).copied().flatten();
    Some(Quantised { codes: input(0)?, scale: input(1)?, zero_point: input(2), axis: *axis })
}

/// Refuses a gather whose indices are known and outside.
fn check_indices(op: &Op, inputs: &[Option<ValueId>], values: &[Value]) -> Result<(), NodeError> {
    let Op::Gather { axis } = op else { return Ok(()) };
    let value = |index: usize| inputs.get(index).copied().flatten().and_then(|id| values.get(id.0));
    let (Some(table), Some(indices)) = (value(0), value(1)) else { return Ok(()) };
    let side = table.shape.get(*axis).copied().unwrap_or_default();
    match indices.constant.as_ref().map(Array::data) {
        Some(Data::Int(list)) => list.iter().try_for_each(|at| fold::resolve(*at, side).map(drop)),
        Some(Data::Float(_)) | None => Ok(()),
    }
}

/// The shape of an input: declared, as the options have it, or free sides filled in.
fn input_shape(input: &ValueInfoProto, options: &Options) -> Result<Vec<usize>, ImportError> {
    let name = &input.name;
    let side = |side: &DimensionProto| match side {
        DimensionProto::Value(value) => usize::try_from(*value).ok().filter(|side| *side > 0),
        DimensionProto::Param(_) | DimensionProto::Unknown => None,
    };
    let declared: Option<Vec<Option<usize>>> =
        input.shape.as_ref().map(|shape| shape.iter().map(side).collect());
    let Some(asked) = options.shapes.get(name) else {
        let declared = declared.ok_or_else(|| ImportError::InputShape { name: name.clone() })?;
        return Ok(declared.iter().map(|side| side.unwrap_or(options.free_side)).collect());
    };
    if let Some(declared) = declared {
        let fits = |(asked, declared): (&usize, &Option<usize>)| {
            declared.is_none_or(|side| side == *asked)
        };
        if asked.len() != declared.len() || !asked.iter().zip(&declared).all(fits) {
            let (name, asked) = (name.clone(), asked.clone());
            return Err(ImportError::InputOverride { name, asked, declared });
        }
    }
    Ok(asked.clone())
}

#[cfg(test)]
mod tests;

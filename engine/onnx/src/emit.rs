//! Operations become nodes again, in the one form that the float engine understands.
//!
//! What the engine computes follows from the [`Op`], not from the file: so it is the importer's
//! understanding that is computed. Operators that the engine does not have are written with
//! others.

use tg_tensor::{Array, Data};

use crate::dtype::{Dtype, ElementKind};
use crate::op::{Binary, Coordinates, Nearest, Op, PadMode, PoolKind, Reduction, ResizeMode};
use crate::op::{Unary, Window};
use crate::proto::{
    AttributeValue, GraphProto, ModelProto, NodeProto, OpsetProto, TensorError, TensorProto,
    ValueInfoProto,
};
use crate::shape::Type;

/// The version of the standard operators that is written.
const OPSET: i64 = 21;

/// A named value and its type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named<'a> {
    pub(crate) name: &'a str,
    pub(crate) dtype: Dtype,
    pub(crate) shape: &'a [usize],
}

/// The operands and results of one operation.
#[derive(Debug)]
pub(crate) struct Ends<'a> {
    pub(crate) inputs: Vec<Option<Named<'a>>>,
    pub(crate) outputs: Vec<Named<'a>>,
}

impl<'a> Ends<'a> {
    fn input(&self, index: usize) -> Option<Named<'a>> {
        self.inputs.get(index).copied().flatten()
    }

    fn name(&self, index: usize) -> &'a str {
        self.input(index).map_or("", |input| input.name)
    }

    fn shape(&self, index: usize) -> &'a [usize] {
        self.input(index).map_or(&[], |input| input.shape)
    }

    fn dtype(&self, index: usize) -> Dtype {
        self.input(index).map_or(Dtype::Float, |input| input.dtype)
    }

    fn names(&self) -> Vec<&'a str> {
        (0..self.inputs.len()).map(|index| self.name(index)).collect()
    }

    fn result(&self) -> &'a str {
        self.outputs.first().map_or("", |output| output.name)
    }

    fn result_shape(&self) -> &'a [usize] {
        self.outputs.first().map_or(&[], |output| output.shape)
    }
}

/// A model in the making. Names of values must not start with `%`.
#[derive(Debug, Default)]
pub(crate) struct Emitter {
    graph: GraphProto,
    fresh: usize,
}

impl Emitter {
    /// The finished model.
    pub(crate) fn finish(self) -> ModelProto {
        let opsets = vec![OpsetProto { domain: String::new(), version: OPSET }];
        ModelProto { ir_version: 9, opsets, graph: self.graph }
    }

    /// Declares an input.
    pub(crate) fn input(&mut self, value: Named<'_>) {
        let element = ElementKind::from(value.dtype);
        self.graph.inputs.push(ValueInfoProto::tensor(value.name, element, value.shape));
    }

    /// Declares an output.
    pub(crate) fn output(&mut self, value: Named<'_>) {
        let element = ElementKind::from(value.dtype);
        self.graph.outputs.push(ValueInfoProto::tensor(value.name, element, value.shape));
    }

    /// Adds a constant.
    pub(crate) fn constant(
        &mut self,
        name: &str,
        dtype: Dtype,
        array: &Array,
    ) -> Result<(), TensorError> {
        self.graph.initializers.push(TensorProto::from_array(name, dtype, array)?);
        Ok(())
    }

    fn fresh(&mut self) -> String {
        self.fresh += 1;
        format!("%{}", self.fresh)
    }

    fn ints(&mut self, values: &[usize]) -> Result<String, TensorError> {
        let values = values.iter().map(|value| i64::try_from(*value).unwrap_or(i64::MAX));
        self.signed(values.collect())
    }

    fn signed(&mut self, values: Vec<i64>) -> Result<String, TensorError> {
        let name = self.fresh();
        let array = Array::new(vec![values.len()], Data::Int(values))?;
        self.constant(&name, Dtype::Int, &array)?;
        Ok(name)
    }

    /// A single number of a kind.
    fn number(&mut self, value: f32, dtype: Dtype) -> Result<String, TensorError> {
        let name = self.fresh();
        let data =
            if dtype.is_float() { Data::Float(vec![value]) } else { Data::Int(vec![value as i64]) };
        self.constant(&name, dtype, &Array::new(vec![], data)?)?;
        Ok(name)
    }

    fn push(&mut self, operator: &str, inputs: &[&str], output: &str) {
        self.graph.nodes.push(NodeProto::new(operator, inputs, &[output]));
    }

    /// A node with a result that only the next one needs.
    fn step(&mut self, operator: &str, inputs: &[&str]) -> String {
        let name = self.fresh();
        self.push(operator, inputs, &name);
        name
    }

    fn add(&mut self, node: NodeProto) {
        self.graph.nodes.push(node);
    }

    fn reshape(&mut self, from: &str, shape: &[usize], to: &str) -> Result<(), TensorError> {
        let target = self.ints(shape)?;
        let keep = int(1); // a zero is a zero
        self.add(NodeProto::new("Reshape", &[from, &target], &[to]).with("allowzero", keep));
        Ok(())
    }

    fn reshaped(&mut self, from: &str, shape: &[usize]) -> Result<String, TensorError> {
        let name = self.fresh();
        self.reshape(from, shape, &name)?;
        Ok(name)
    }

    /// Adds the nodes of one operation.
    pub(crate) fn operation(&mut self, op: &Op, ends: &Ends<'_>) -> Result<(), TensorError> {
        let plain = |operator| NodeProto::new(operator, &ends.names(), &[ends.result()]);
        let node = match op {
            Op::Gemm { alpha, beta, transpose_left, transpose_right } => plain("Gemm")
                .with("alpha", AttributeValue::Float(*alpha))
                .with("beta", AttributeValue::Float(*beta))
                .with("transA", flag(*transpose_left))
                .with("transB", flag(*transpose_right)),
            Op::MatMul => return self.mat_mul(ends),
            Op::Conv { window, group } => {
                dilated(plain("Conv"), window).with("group", index(*group))
            }
            Op::ConvTranspose { window, group, output_padding } => {
                dilated(plain("ConvTranspose"), window)
                    .with("group", index(*group))
                    .with("output_padding", indices(output_padding))
            }
            Op::Pool { kind, window, ceil } => {
                let node = windowed(plain(pool(*kind, false)), window);
                let node = node.with("ceil_mode", flag(*ceil));
                match kind {
                    PoolKind::Max => node,
                    PoolKind::Average { count_pads } => {
                        node.with("count_include_pad", flag(*count_pads))
                    }
                }
            }
            Op::GlobalPool(kind) => plain(pool(*kind, true)),
            Op::Unary(unary) => return self.unary(*unary, ends),
            Op::Binary(binary) => return self.binary(*binary, ends),
            Op::Softmax { axes, log } => return self.softmax(axes.clone(), *log, ends),
            Op::LayerNorm { axis, epsilon } => plain("LayerNormalization")
                .with("axis", index(*axis))
                .with("epsilon", AttributeValue::Float(*epsilon)),
            Op::InstanceNorm { epsilon } => {
                plain("InstanceNormalization").with("epsilon", AttributeValue::Float(*epsilon))
            }
            Op::BatchNorm { epsilon } => {
                plain("BatchNormalization").with("epsilon", AttributeValue::Float(*epsilon))
            }
            Op::GroupNorm { groups, epsilon } => return self.group_norm(*groups, *epsilon, ends),
            Op::ArgExtreme { smallest, axis, keep } => {
                plain(if *smallest { "ArgMin" } else { "ArgMax" })
                    .with("axis", index(*axis))
                    .with("keepdims", flag(*keep))
            }
            Op::Where => plain("Where"),
            Op::Cast { to } => return self.cast(*to, ends),
            Op::Identity => plain("Identity"),
            Op::Quantize { axis, to } => plain("QuantizeLinear")
                .with("axis", index(*axis))
                .with("output_dtype", int(ElementKind::from(*to).number())),
            Op::Dequantize { axis } => plain("DequantizeLinear").with("axis", index(*axis)),
            Op::Reduce { .. }
            | Op::Concat { .. }
            | Op::Slice { .. }
            | Op::Split { .. }
            | Op::Pad { .. }
            | Op::Reshape { .. }
            | Op::Transpose { .. }
            | Op::Expand { .. }
            | Op::Tile { .. }
            | Op::Gather { .. }
            | Op::Resize { .. }
            | Op::DepthToSpace { .. }
            | Op::SpaceToDepth { .. } => return self.layout(op, ends),
        };
        self.add(node);
        Ok(())
    }

    /// The engine gives a product with a vector another shape than the standard says, so vectors
    /// become matrices here.
    fn mat_mul(&mut self, ends: &Ends<'_>) -> Result<(), TensorError> {
        let (left, right) = (ends.shape(0), ends.shape(1));
        if left.len() > 1 && right.len() > 1 {
            self.push("MatMul", &[ends.name(0), ends.name(1)], ends.result());
            return Ok(());
        }
        let row = match left {
            [inner] => self.reshaped(ends.name(0), &[1, *inner])?,
            _ => ends.name(0).to_owned(),
        };
        let column = match right {
            [inner] => self.reshaped(ends.name(1), &[*inner, 1])?,
            _ => ends.name(1).to_owned(),
        };
        let product = self.step("MatMul", &[&row, &column]);
        self.reshape(&product, ends.result_shape(), ends.result())
    }

    /// The engine gives zero the sign one.
    fn sign(&mut self, ends: &Ends<'_>) -> Result<(), TensorError> {
        let zero = self.number(0.0, ends.dtype(0))?;
        let above = self.step("Greater", &[ends.name(0), &zero]);
        let below = self.step("Less", &[ends.name(0), &zero]);
        let (above, below) =
            (self.cast_step(&above, ends.dtype(0)), self.cast_step(&below, ends.dtype(0)));
        self.push("Sub", &[&above, &below], ends.result());
        Ok(())
    }

    fn unary(&mut self, unary: Unary, ends: &Ends<'_>) -> Result<(), TensorError> {
        let (x, y) = (ends.name(0), ends.result());
        let plain = |operator| NodeProto::new(operator, &[x], &[y]);
        let with = |operator, alpha| plain(operator).with("alpha", AttributeValue::Float(alpha));
        let node = match unary {
            Unary::Clip { min, max } => return self.clip(min, max, ends),
            Unary::LeakyRelu { alpha } => with("LeakyRelu", alpha),
            Unary::Elu { alpha } => with("Elu", alpha),
            Unary::Selu { alpha, gamma } => {
                let inner = self.fresh();
                let elu = NodeProto::new("Elu", &[x], &[&inner]);
                self.add(elu.with("alpha", AttributeValue::Float(alpha)));
                let gamma = self.number(gamma, Dtype::Float)?;
                NodeProto::new("Mul", &[&inner, &gamma], &[y])
            }
            Unary::Celu { alpha } => {
                let alpha = self.number(alpha, Dtype::Float)?;
                let scaled = self.step("Div", &[x, &alpha]);
                let inner = self.step("Elu", &[&scaled]);
                NodeProto::new("Mul", &[&inner, &alpha], &[y])
            }
            Unary::HardSigmoid { alpha, beta } => {
                with("HardSigmoid", alpha).with("beta", AttributeValue::Float(beta))
            }
            Unary::Gelu { approximate } => {
                let word = if approximate { "tanh" } else { "none" };
                plain("Gelu").with("approximate", AttributeValue::Text(word.to_owned()))
            }
            Unary::Mish => {
                let soft = self.step("Softplus", &[x]);
                let gate = self.step("Tanh", &[&soft]);
                NodeProto::new("Mul", &[x, &gate], &[y])
            }
            Unary::Relu => plain("Relu"),
            Unary::Softplus => plain("Softplus"),
            Unary::Softsign => plain("Softsign"),
            Unary::Sigmoid => plain("Sigmoid"),
            Unary::HardSwish => plain("HardSwish"),
            Unary::Tanh => plain("Tanh"),
            Unary::Erf => plain("Erf"),
            Unary::Sqrt => plain("Sqrt"),
            Unary::Exp => plain("Exp"),
            Unary::Log => plain("Log"),
            Unary::Abs => plain("Abs"),
            Unary::Neg => plain("Neg"),
            Unary::Reciprocal => plain("Reciprocal"),
            Unary::Floor => plain("Floor"),
            Unary::Ceil => plain("Ceil"),
            Unary::Round => plain("Round"),
            Unary::Sign => return self.sign(ends),
            Unary::Not => plain("Not"),
        };
        self.add(node);
        Ok(())
    }

    fn clip(&mut self, min: f32, max: f32, ends: &Ends<'_>) -> Result<(), TensorError> {
        let mut bound = |value: f32| {
            if value.is_finite() { self.number(value, ends.dtype(0)) } else { Ok(String::new()) }
        };
        let (min, max) = (bound(min)?, bound(max)?);
        self.push("Clip", &[ends.name(0), &min, &max], ends.result());
        Ok(())
    }

    fn binary(&mut self, binary: Binary, ends: &Ends<'_>) -> Result<(), TensorError> {
        let (left, mut right) = (ends.name(0), ends.name(1).to_owned());
        let operator = match binary {
            Binary::Add => "Add",
            Binary::Sub => "Sub",
            Binary::Mul => "Mul",
            Binary::Div => "Div",
            Binary::Pow => {
                if ends.dtype(0) != ends.dtype(1) {
                    right = self.cast_step(&right, ends.dtype(0));
                }
                "Pow"
            }
            Binary::Min => "Min",
            Binary::Max => "Max",
            Binary::PRelu => "PRelu",
            Binary::And => "And",
            Binary::Or => "Or",
            Binary::Xor => "Xor",
            Binary::Equal => "Equal",
            Binary::Less => "Less",
            Binary::LessOrEqual => "LessOrEqual",
            Binary::Greater => "Greater",
            Binary::GreaterOrEqual => "GreaterOrEqual",
        };
        self.push(operator, &[left, &right], ends.result());
        Ok(())
    }

    fn cast_step(&mut self, from: &str, to: Dtype) -> String {
        let name = self.fresh();
        let to = int(ElementKind::from(to).number());
        self.add(NodeProto::new("Cast", &[from], &[&name]).with("to", to));
        name
    }

    /// The engine keeps truth values as integers and casts to them without making them 0 or 1.
    fn cast(&mut self, to: Dtype, ends: &Ends<'_>) -> Result<(), TensorError> {
        let mut from = ends.name(0).to_owned();
        if to != Dtype::Bool {
            let to = int(ElementKind::from(to).number());
            self.add(NodeProto::new("Cast", &[&from], &[ends.result()]).with("to", to));
            return Ok(());
        }
        let mut dtype = ends.dtype(0);
        if dtype.is_code() {
            from = self.cast_step(&from, Dtype::Int);
            dtype = Dtype::Int;
        }
        let zero = self.number(0.0, dtype)?;
        let is_zero = self.step("Equal", &[&from, &zero]);
        self.push("Not", &[&is_zero], ends.result());
        Ok(())
    }

    /// Axes that are normalised together are made one first.
    fn softmax(
        &mut self,
        axes: std::ops::Range<usize>,
        log: bool,
        ends: &Ends<'_>,
    ) -> Result<(), TensorError> {
        let operator = if log { "LogSoftmax" } else { "Softmax" };
        let node = |from: &str, to: &str| {
            NodeProto::new(operator, &[from], &[to]).with("axis", index(axes.start))
        };
        if axes.len() == 1 {
            self.add(node(ends.name(0), ends.result()));
            return Ok(());
        }
        let shape = ends.shape(0);
        let (outer, rest) = shape.split_at_checked(axes.start).unwrap_or_default();
        let (joint, inner) = rest.split_at_checked(axes.len()).unwrap_or_default();
        let flat = [outer, &[joint.iter().product()], inner].concat();
        let from = self.reshaped(ends.name(0), &flat)?;
        let soft = self.fresh();
        self.add(node(&from, &soft));
        self.reshape(&soft, shape, ends.result())
    }

    /// Each group becomes a channel, which is normalised on its own; scale and bias come after.
    fn group_norm(
        &mut self,
        groups: usize,
        epsilon: f32,
        ends: &Ends<'_>,
    ) -> Result<(), TensorError> {
        let shape = ends.shape(0);
        let (Some(batch), Some(channels)) = (shape.first(), shape.get(1)) else { return Ok(()) };
        let rest = shape.get(1..).unwrap_or_default().iter().product::<usize>();
        let grouped =
            self.reshaped(ends.name(0), &[*batch, groups, rest.checked_div(groups).unwrap_or(0)])?;
        let mut each = |value| {
            let name = self.fresh();
            let array = Array::new(vec![groups], Data::Float(vec![value; groups]))?;
            self.constant(&name, Dtype::Float, &array).map(|()| name)
        };
        let (one, zero) = (each(1.0)?, each(0.0)?);
        let normal = self.fresh();
        let node = NodeProto::new("InstanceNormalization", &[&grouped, &one, &zero], &[&normal]);
        self.add(node.with("epsilon", AttributeValue::Float(epsilon)));
        let back = self.reshaped(&normal, shape)?;
        let mut column = vec![1; shape.len() - 1];
        if let Some(first) = column.first_mut() {
            *first = *channels;
        }
        let scale = self.reshaped(ends.name(1), &column)?;
        let bias = self.reshaped(ends.name(2), &column)?;
        let scaled = self.step("Mul", &[&back, &scale]);
        self.push("Add", &[&scaled, &bias], ends.result());
        Ok(())
    }

    fn layout(&mut self, op: &Op, ends: &Ends<'_>) -> Result<(), TensorError> {
        let (x, y) = (ends.name(0), ends.result());
        let plain = |operator| NodeProto::new(operator, &ends.names(), &[y]);
        let node = match op {
            Op::Reduce { kind, axes, keep } => {
                let axes = self.ints(axes)?;
                let node = NodeProto::new(reduce(*kind), &[x, &axes], &[y]);
                // Without axes there is nothing to reduce: the operand is a single number.
                node.with("keepdims", flag(*keep)).with("noop_with_empty_axes", int(0))
            }
            Op::Concat { axis } => plain("Concat").with("axis", index(*axis)),
            Op::Slice { .. } => return self.slice(op, ends),
            Op::Split { axis, sides } => {
                let sides = self.ints(sides)?;
                let outputs: Vec<&str> = ends.outputs.iter().map(|output| output.name).collect();
                NodeProto::new("Split", &[x, &sides], &outputs).with("axis", index(*axis))
            }
            Op::Pad { mode, before, after } => {
                let pads = self.ints(&[before.as_slice(), after.as_slice()].concat())?;
                let (word, value) = match mode {
                    PadMode::Constant(value) => ("constant", self.number(*value, ends.dtype(0))?),
                    PadMode::Reflect => ("reflect", String::new()),
                    PadMode::Edge => ("edge", String::new()),
                };
                let inputs = if value.is_empty() { vec![x, &pads] } else { vec![x, &pads, &value] };
                NodeProto::new("Pad", &inputs, &[y]).with("mode", text(word))
            }
            Op::Reshape { shape } => return self.reshape(x, shape, y),
            Op::Transpose { order } => plain("Transpose").with("perm", indices(order)),
            Op::Expand { shape } => {
                let shape = self.ints(shape)?;
                NodeProto::new("Expand", &[x, &shape], &[y])
            }
            Op::Tile { repeats } => {
                let repeats = self.ints(repeats)?;
                NodeProto::new("Tile", &[x, &repeats], &[y])
            }
            Op::Gather { axis } => plain("Gather").with("axis", index(*axis)),
            Op::Resize { mode, coordinates, scales, shape } => {
                self.resize(ends, *mode, *coordinates, scales, shape)?
            }
            Op::DepthToSpace { block, channel_first } => plain("DepthToSpace")
                .with("blocksize", index(*block))
                .with("mode", text(if *channel_first { "CRD" } else { "DCR" })),
            Op::SpaceToDepth { block } => return self.space_to_depth(*block, ends),
            Op::Gemm { .. }
            | Op::MatMul
            | Op::Conv { .. }
            | Op::ConvTranspose { .. }
            | Op::Unary(_)
            | Op::Binary(_)
            | Op::Softmax { .. }
            | Op::LayerNorm { .. }
            | Op::InstanceNorm { .. }
            | Op::GroupNorm { .. }
            | Op::BatchNorm { .. }
            | Op::Pool { .. }
            | Op::GlobalPool(_)
            | Op::ArgExtreme { .. }
            | Op::Where
            | Op::Cast { .. }
            | Op::Identity
            | Op::Quantize { .. }
            | Op::Dequantize { .. } => return Ok(()), // written by `operation`
        };
        self.add(node);
        Ok(())
    }

    fn slice(&mut self, op: &Op, ends: &Ends<'_>) -> Result<(), TensorError> {
        let Op::Slice { spans } = op else { return Ok(()) };
        let (mut starts, mut stops, mut steps) = (vec![], vec![], vec![]);
        let whole = |side: usize| i64::try_from(side).unwrap_or(i64::MAX);
        for (span, side) in spans.iter().zip(ends.shape(0)) {
            let start = whole(span.start);
            let stop = start.saturating_add(whole(span.count).saturating_mul(span.step));
            starts.push(start);
            // Below zero the engine would count from the end again, unless it is beyond the end.
            stops.push(if stop < 0 { -whole(*side) - 1 } else { stop });
            steps.push(span.step);
        }
        let axes = self.ints(&(0..spans.len()).collect::<Vec<_>>())?;
        let (starts, stops) = (self.signed(starts)?, self.signed(stops)?);
        let steps = self.signed(steps)?;
        self.push("Slice", &[ends.name(0), &starts, &stops, &axes, &steps], ends.result());
        Ok(())
    }

    /// Factors are written where they give the shape; sizes where a factor would be rounded.
    fn resize(
        &mut self,
        ends: &Ends<'_>,
        mode: ResizeMode,
        coordinates: Coordinates,
        scales: &[f32],
        shape: &[usize],
    ) -> Result<NodeProto, TensorError> {
        let mut sides = ends.shape(0).iter().zip(scales).zip(shape);
        let exact =
            sides.all(|((side, scale), result)| (*side as f32 * scale).floor() as usize == *result);
        let (factors, sizes) = if exact {
            let name = self.fresh();
            let array = Array::new(vec![scales.len()], Data::Float(scales.to_vec()))?;
            self.constant(&name, Dtype::Float, &array)?;
            (name, String::new())
        } else {
            (String::new(), self.ints(shape)?)
        };
        let (mode, nearest) = match mode {
            ResizeMode::Linear => ("linear", "round_prefer_floor"),
            ResizeMode::Nearest(Nearest::Floor) => ("nearest", "floor"),
            ResizeMode::Nearest(Nearest::Ceil) => ("nearest", "ceil"),
            ResizeMode::Nearest(Nearest::PreferFloor) => ("nearest", "round_prefer_floor"),
            ResizeMode::Nearest(Nearest::PreferCeil) => ("nearest", "round_prefer_ceil"),
        };
        let coordinates = match coordinates {
            Coordinates::Asymmetric => "asymmetric",
            Coordinates::HalfPixel => "half_pixel",
            Coordinates::PytorchHalfPixel => "pytorch_half_pixel",
            Coordinates::AlignCorners => "align_corners",
        };
        let node =
            NodeProto::new("Resize", &[ends.name(0), "", &factors, &sizes], &[ends.result()]);
        Ok(node
            .with("mode", text(mode))
            .with("nearest_mode", text(nearest))
            .with("coordinate_transformation_mode", text(coordinates)))
    }

    fn space_to_depth(&mut self, block: usize, ends: &Ends<'_>) -> Result<(), TensorError> {
        let [n, c, h, w] = ends.shape(0) else { return Ok(()) };
        let cut = self.reshaped(ends.name(0), &[*n, *c, h / block, block, w / block, block])?;
        let turned = self.fresh();
        let order = indices(&[0, 3, 5, 1, 2, 4]);
        self.add(NodeProto::new("Transpose", &[&cut], &[&turned]).with("perm", order));
        self.reshape(&turned, ends.result_shape(), ends.result())
    }
}

impl<'a> Named<'a> {
    /// A name for a type.
    pub(crate) fn new(name: &'a str, kind: &'a Type) -> Self {
        Self { name, dtype: kind.dtype, shape: &kind.shape }
    }
}

fn int(value: i64) -> AttributeValue {
    AttributeValue::Int(value)
}

fn flag(value: bool) -> AttributeValue {
    AttributeValue::Int(i64::from(value))
}

fn index(value: usize) -> AttributeValue {
    AttributeValue::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

fn indices(values: &[usize]) -> AttributeValue {
    let values = values.iter().map(|value| i64::try_from(*value).unwrap_or(i64::MAX));
    AttributeValue::Ints(values.collect())
}

fn text(value: &str) -> AttributeValue {
    AttributeValue::Text(value.to_owned())
}

fn windowed(node: NodeProto, window: &Window) -> NodeProto {
    let pads = [window.before.as_slice(), window.after.as_slice()].concat();
    node.with("kernel_shape", indices(&window.kernel))
        .with("strides", indices(&window.strides))
        .with("pads", indices(&pads))
}

fn dilated(node: NodeProto, window: &Window) -> NodeProto {
    windowed(node, window).with("dilations", indices(&window.dilations))
}

fn pool(kind: PoolKind, global: bool) -> &'static str {
    match (kind, global) {
        (PoolKind::Max, false) => "MaxPool",
        (PoolKind::Max, true) => "GlobalMaxPool",
        (PoolKind::Average { .. }, false) => "AveragePool",
        (PoolKind::Average { .. }, true) => "GlobalAveragePool",
    }
}

fn reduce(kind: Reduction) -> &'static str {
    match kind {
        Reduction::Mean => "ReduceMean",
        Reduction::Sum => "ReduceSum",
        Reduction::Max => "ReduceMax",
        Reduction::Min => "ReduceMin",
        Reduction::Prod => "ReduceProd",
        Reduction::SumSquare => "ReduceSumSquare",
        Reduction::L2 => "ReduceL2",
        Reduction::L1 => "ReduceL1",
    }
}

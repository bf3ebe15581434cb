//! Functions of one number, for look-up tables.
//!
//! A chain of element-by-element operations on one value, whatever its length, is one table. The
//! functions are computed once, in `f64`, while importing; a program holds only the results.

use crate::op::{Binary, Unary};

/// A function of one element.
pub(crate) fn unary(function: &Unary, x: f64) -> f64 {
    match *function {
        Unary::Relu => x.max(0.0),
        Unary::LeakyRelu { alpha } => {
            if x < 0.0 {
                x * f64::from(alpha)
            } else {
                x
            }
        }
        Unary::Elu { alpha } => {
            if x < 0.0 {
                f64::from(alpha) * x.exp_m1()
            } else {
                x
            }
        }
        Unary::Selu { alpha, gamma } => {
            let inner = if x <= 0.0 { f64::from(alpha) * x.exp_m1() } else { x };
            f64::from(gamma) * inner
        }
        Unary::Celu { alpha } => {
            let alpha = f64::from(alpha);
            if x < 0.0 { alpha * (x / alpha).exp_m1() } else { x }
        }
        Unary::Softplus => softplus(x),
        Unary::Softsign => x / (1.0 + x.abs()),
        Unary::Clip { min, max } => x.min(f64::from(max)).max(f64::from(min)),
        Unary::Sigmoid => sigmoid(x),
        Unary::HardSigmoid { alpha, beta } => {
            (f64::from(alpha) * x + f64::from(beta)).clamp(0.0, 1.0)
        }
        Unary::HardSwish => x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
        Unary::Tanh => x.tanh(),
        Unary::Erf => erf(x),
        Unary::Gelu { approximate: false } => {
            x * 0.5 * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2))
        }
        Unary::Gelu { approximate: true } => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
            x * 0.5 * (1.0 + inner.tanh())
        }
        Unary::Mish => x * softplus(x).tanh(),
        Unary::Sqrt => x.max(0.0).sqrt(),
        Unary::Exp => x.exp(),
        Unary::Log => x.max(0.0).ln(),
        Unary::Abs => x.abs(),
        Unary::Neg => -x,
        Unary::Reciprocal => 1.0 / x,
        Unary::Floor => x.floor(),
        Unary::Ceil => x.ceil(),
        Unary::Round => x.round_ties_even(),
        Unary::Sign => {
            if x == 0.0 {
                0.0
            } else {
                x.signum()
            }
        }
        Unary::Not => truth(x == 0.0),
    }
}

/// A function of two elements.
pub(crate) fn binary(function: Binary, a: f64, b: f64) -> f64 {
    match function {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div => a / b,
        Binary::Pow => a.powf(b),
        Binary::Min => a.min(b),
        Binary::Max => a.max(b),
        Binary::PRelu => {
            if a < 0.0 {
                a * b
            } else {
                a
            }
        }
        Binary::And => truth(a != 0.0 && b != 0.0),
        Binary::Or => truth(a != 0.0 || b != 0.0),
        Binary::Xor => truth((a != 0.0) != (b != 0.0)),
        Binary::Equal => truth(a == b),
        Binary::Less => truth(a < b),
        Binary::LessOrEqual => truth(a <= b),
        Binary::Greater => truth(a > b),
        Binary::GreaterOrEqual => truth(a >= b),
    }
}

fn truth(holds: bool) -> f64 {
    if holds { 1.0 } else { 0.0 }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn softplus(x: f64) -> f64 {
    if x > 30.0 { x } else { x.exp().ln_1p() }
}

/// The error function: its series near zero, its continued fraction further out. Good to 1e-12,
/// far below a table's step.
fn erf(x: f64) -> f64 {
    let distance = x.abs();
    let positive =
        if distance < 2.5 { erf_series(distance) } else { 1.0 - erfc_fraction(distance) };
    if x < 0.0 { -positive } else { positive }
}

fn erf_series(x: f64) -> f64 {
    let mut term = x;
    let mut sum = x;
    for n in 1..80 {
        let n = f64::from(n);
        term *= -x * x / n;
        sum += term / (2.0 * n + 1.0);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

fn erfc_fraction(x: f64) -> f64 {
    let mut fraction = x;
    for n in (1..=60).rev() {
        fraction = x + f64::from(n) / 2.0 / fraction;
    }
    (-x * x).exp() / fraction / std::f64::consts::PI.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erf_agrees_with_published_values() {
        // Abramowitz and Stegun, table 7.1, and one value beyond it.
        for (x, expected) in [
            (0.0, 0.0),
            (0.5, 0.520_499_877_8),
            (1.0, 0.842_700_792_9),
            (2.0, 0.995_322_265_0),
            (2.5, 0.999_593_048_0),
            (3.5, 0.999_999_256_9),
        ] {
            assert!((erf(x) - expected).abs() < 1e-9, "erf({x}) = {}", erf(x));
            assert!((erf(-x) + expected).abs() < 1e-9);
        }
    }

    #[test]
    fn functions_hold_at_their_corners() {
        assert_eq!(unary(&Unary::HardSwish, -4.0), 0.0);
        assert_eq!(unary(&Unary::HardSwish, 4.0), 4.0);
        assert_eq!(unary(&Unary::Softplus, 1_000.0), 1_000.0);
        assert!((unary(&Unary::Gelu { approximate: false }, 1.0) - 0.841_344_7).abs() < 1e-6);
        assert!((unary(&Unary::Gelu { approximate: true }, 1.0) - 0.841_192).abs() < 1e-6);
        assert_eq!(unary(&Unary::Round, 2.5), 2.0);
        assert_eq!(binary(Binary::PRelu, -2.0, 0.25), -0.5);
    }
}

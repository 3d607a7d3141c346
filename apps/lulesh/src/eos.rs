//! The equation of state: an ideal gas of γ = 5/3, with cuts against numerical dust.
//!
//! Energy and viscosity depend on each other through the pressure; three corrector steps lead from
//! the old energy, pressure and viscosity to the new ones.

use crate::lanes::Lanes;

const ENERGY_CUT: f64 = 1e-7;
const PRESSURE_CUT: f64 = 1e-7;
const VISCOSITY_CUT: f64 = 1e-7;
const LEAST_ENERGY: f64 = -1e15;
const VOLUMES: [f64; 2] = [1e-9, 1e9];
/// γ − 1.
const GAMMA_LESS_ONE: f64 = 2.0 / 3.0;
/// Below the first, the square of the speed of sound is noise, and the second is its root.
const LEAST_SOUND: [f64; 2] = [0.111_111_1e-36, 0.333_333_3e-18];

/// What the equation is applied to.
#[derive(Clone, Copy, Debug)]
pub struct Before<R> {
    /// Specific energy.
    pub energy: R,
    /// Pressure.
    pub pressure: R,
    /// Artificial viscosity.
    pub viscosity: R,
    /// The new relative volume.
    pub volume: R,
    /// Its change.
    pub change: R,
    /// The linear term of the viscosity.
    pub linear: R,
    /// The quadratic one.
    pub quadratic: R,
}

/// What comes out.
#[derive(Clone, Copy, Debug)]
pub struct After<R> {
    /// Specific energy.
    pub energy: R,
    /// Pressure.
    pub pressure: R,
    /// Artificial viscosity.
    pub viscosity: R,
    /// Speed of sound.
    pub sound: R,
}

/// Energy, pressure, viscosity and speed of sound after a change of volume.
#[inline(always)]
pub fn apply<R: Lanes>(old: &Before<R>) -> After<R> {
    let (zero, one, half) = (R::all(0.0), R::all(1.0), R::all(0.5));
    let (change, [least, most]) = (old.change, VOLUMES.map(R::all));
    let volume = old.volume.if_below(least, least, old.volume);
    let volume = volume.if_below(most, volume, most);
    let compression = one / volume - one;
    let middle = volume - half * change;
    let half_compression = one / middle - one;
    let half_compression = volume.if_at_most(least, compression, half_compression);
    let old_sum = old.pressure + old.viscosity;
    let resistance = |energy: R, b: R, vv: R, pressure: R| {
        sound_speed(energy, b, vv, pressure) * old.linear + old.quadratic
    };
    let expanding = |then: R, otherwise: R| change.if_at_most(zero, otherwise, then);
    let floored = |energy: R| {
        let least = R::all(LEAST_ENERGY);
        energy.if_below(least, least, energy)
    };

    let energy = floored(old.energy - half * change * old_sum);
    let (half_pressure, b) = pressure_of(energy, half_compression, volume);
    let inner = one / (one + half_compression);
    let half_viscosity = expanding(zero, resistance(energy, b, inner, half_pressure));
    let half_sum = half_pressure + half_viscosity;

    let energy = energy + half * change * (R::all(3.0) * old_sum - R::all(4.0) * half_sum);
    let energy = floored(cut(energy, ENERGY_CUT));
    let (pressure, b) = pressure_of(energy, compression, volume);
    let viscosity = expanding(zero, resistance(energy, b, volume, pressure));

    let sums = R::all(7.0) * old_sum - R::all(8.0) * half_sum + (pressure + viscosity);
    let energy = energy - change * sums * R::all(1.0 / 6.0);
    let energy = floored(cut(energy, ENERGY_CUT));
    let (pressure, b) = pressure_of(energy, compression, volume);
    let sound = sound_speed(energy, b, volume, pressure);
    let viscosity = cut(sound * old.linear + old.quadratic, VISCOSITY_CUT);
    let viscosity = expanding(half_viscosity, viscosity);
    After { energy, pressure, viscosity, sound }
}

/// The value, or zero if it is small.
#[inline(always)]
fn cut<R: Lanes>(value: R, below: f64) -> R {
    value.abs().if_below(R::all(below), R::all(0.0), value)
}

/// The pressure, and its derivative with respect to the energy.
#[inline(always)]
fn pressure_of<R: Lanes>(energy: R, compression: R, volume: R) -> (R, R) {
    let zero = R::all(0.0);
    let b = R::all(GAMMA_LESS_ONE) * (compression + R::all(1.0));
    let pressure = cut(b * energy, PRESSURE_CUT);
    let pressure = volume.if_below(R::all(VOLUMES[1]), pressure, zero);
    (pressure.if_below(zero, zero, pressure), b)
}

#[inline(always)]
fn sound_speed<R: Lanes>(energy: R, b: R, volume: R, pressure: R) -> R {
    let square = R::all(GAMMA_LESS_ONE) * energy + volume * volume * b * pressure;
    let [noise, least] = LEAST_SOUND.map(R::all);
    square.if_at_most(noise, least, square.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn before(energy: f64, volume: f64, change: f64) -> Before<f64> {
        let pressure = GAMMA_LESS_ONE * energy / (volume - change);
        Before { energy, pressure, viscosity: 0.0, volume, change, linear: 0.0, quadratic: 0.0 }
    }

    #[test]
    fn a_slow_change_without_viscosity_follows_the_adiabat() {
        for change in [-1e-3, 1e-3] {
            let mut state = before(10.0, 1.0, 0.0);
            for _ in 0..200 {
                state.change = change;
                state.volume += change;
                let after = apply(&state);
                (state.energy, state.pressure) = (after.energy, after.pressure);
                let sound = (GAMMA_LESS_ONE * 5.0 / 3.0 * state.energy).sqrt();
                assert!((after.sound / sound - 1.0).abs() < 1e-12);
            }
            let expected = 10.0 * state.volume.powf(-GAMMA_LESS_ONE);
            assert!((state.energy / expected - 1.0).abs() < 1e-6, "{}", state.energy);
        }
    }

    #[test]
    fn dust_becomes_zero_and_an_empty_element_is_nearly_silent() {
        let after = apply(&before(1e-8, 1.0, 0.0));
        assert_eq!([after.energy, after.pressure, after.viscosity], [0.0; 3]);
        assert_eq!(after.sound, LEAST_SOUND[1]);
    }

    #[test]
    fn viscosity_resists_compression_only() {
        let viscous =
            |change| apply(&Before { linear: 0.1, quadratic: 0.5, ..before(10.0, 1.0, change) });
        assert_eq!(viscous(1e-3).viscosity, 0.0);
        assert!(viscous(-1e-3).viscosity > 0.5);
        assert!(viscous(-1e-3).energy > apply(&before(10.0, 1.0, -1e-3)).energy);
    }
}

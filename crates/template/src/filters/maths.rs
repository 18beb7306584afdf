//! Numbers: `log`, `pow`, `root`, `human_readable`.

use minijinja::value::Kwargs;
use minijinja::{Error, Value};

use super::invalid;
use crate::registry::Registry;

pub(super) fn install(env: &mut Registry<'_>) {
    env.add_filter("log", |x: f64, base: Option<f64>| {
        let value = match base {
            None => x.ln(),
            Some(10.0) => x.log10(),
            Some(base) => x.ln() / base.ln(),
        };
        finite(value, "log")
    });
    env.add_filter("pow", |x: f64, y: f64| finite(x.powf(y), "pow"));
    env.add_filter("root", |x: f64, base: Option<f64>| {
        let value = match base {
            None | Some(2.0) => x.sqrt(),
            Some(base) => x.powf(1.0 / base),
        };
        finite(value, "root")
    });
    env.add_filter("human_readable", human_readable);
}

fn finite(value: f64, name: &str) -> Result<f64, Error> {
    if value.is_finite() { Ok(value) } else { Err(invalid(format!("{name}: there is no such number"))) }
}

/// `1073741824` → `1.00 GB`, powers of 1024.
fn human_readable(
    size: f64,
    bits: Option<bool>,
    unit: Option<String>,
    options: Kwargs,
) -> Result<String, Error> {
    let bits = options.get::<Option<bool>>("isbits")?.or(bits).unwrap_or(false);
    let unit = options.get::<Option<String>>("unit")?.or(unit);
    options.assert_all_used()?;
    let base = if bits { "bits" } else { "Bytes" };
    let letters = ["Y", "Z", "E", "P", "T", "G", "M", "K"];
    let mut chosen = (1.0, String::new());
    for (index, letter) in letters.iter().enumerate() {
        let limit = 1024_f64.powi(i32::try_from(letters.len() - index).unwrap_or(1));
        let wanted = match &unit {
            None => size >= limit,
            Some(unit) => unit.to_uppercase().starts_with(letter),
        };
        if wanted {
            chosen = (limit, (*letter).to_owned());
            break;
        }
    }
    let (limit, letter) = chosen;
    let suffix =
        if letter.is_empty() { base.to_owned() } else { format!("{letter}{}", if bits { "b" } else { "B" }) };
    Ok(format!("{:.2} {suffix}", size / limit))
}

/// Python's generator of random numbers, for results that a seed decides.
///
/// Facts: MT19937 as in CPython's `_randommodule.c`; `Random.seed` of text, `_randbelow`, `shuffle` in `Lib/random.py`.
pub(super) struct Twister {
    state: Vec<u32>,
    at: usize,
}

const N: usize = 624;

impl Twister {
    /// `random.Random(text)`: the text and its SHA-512 are one large number, the key.
    pub(super) fn of_text(text: &str) -> Self {
        use sha2::Digest as _;
        let mut bytes = text.as_bytes().to_vec();
        bytes.extend_from_slice(&sha2::Sha512::digest(text.as_bytes()));
        bytes.reverse();
        Self::of_key(&bytes)
    }

    /// `random.Random(number)`: its absolute value is the key.
    pub(super) fn of_number(number: i64) -> Self {
        Self::of_key(&number.unsigned_abs().to_le_bytes())
    }

    /// A key of little-endian bytes.
    fn of_key(bytes: &[u8]) -> Self {
        let word = |chunk: &[u8]| chunk.iter().rev().fold(0_u32, |word, byte| word << 8 | u32::from(*byte));
        let mut key: Vec<u32> = bytes.chunks(4).map(word).collect();
        while key.len() > 1 && key.last() == Some(&0) {
            key.pop();
        }
        if key.is_empty() {
            key.push(0);
        }
        let mut state = vec![0_u32; N];
        let mut last = 19_650_218_u32;
        for (index, slot) in state.iter_mut().enumerate() {
            if index > 0 {
                last = 1_812_433_253_u32.wrapping_mul(last ^ (last >> 30)).wrapping_add(index as u32);
            }
            *slot = last;
        }
        let get = |state: &[u32], at: usize| state.get(at).copied().unwrap_or_default();
        let set = |state: &mut [u32], at: usize, value: u32| {
            if let Some(slot) = state.get_mut(at) {
                *slot = value;
            }
        };
        let (mut i, mut j) = (1, 0);
        for round in 0..N.max(key.len()) + N - 1 {
            let first = round < N.max(key.len());
            let before = get(&state, i - 1);
            let mixed = before ^ (before >> 30);
            let value = if first {
                (get(&state, i) ^ mixed.wrapping_mul(1_664_525))
                    .wrapping_add(key.get(j).copied().unwrap_or_default())
                    .wrapping_add(j as u32)
            } else {
                (get(&state, i) ^ mixed.wrapping_mul(1_566_083_941)).wrapping_sub(i as u32)
            };
            set(&mut state, i, value);
            i += 1;
            if first {
                j = (j + 1) % key.len();
            }
            if i == N {
                let end = get(&state, N - 1);
                set(&mut state, 0, end);
                i = 1;
            }
        }
        set(&mut state, 0, 0x8000_0000);
        Self { state, at: N }
    }

    fn word(&mut self) -> u32 {
        let get = |state: &[u32], at: usize| state.get(at % N).copied().unwrap_or_default();
        if self.at >= N {
            for k in 0..N {
                let y = (get(&self.state, k) & 0x8000_0000) | (get(&self.state, k + 1) & 0x7fff_ffff);
                let twist = if y & 1 == 1 { 0x9908_b0df } else { 0 };
                let value = get(&self.state, k + 397) ^ (y >> 1) ^ twist;
                if let Some(slot) = self.state.get_mut(k) {
                    *slot = value;
                }
            }
            self.at = 0;
        }
        let mut y = get(&self.state, self.at);
        self.at += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    /// `_randbelow`: a number from 0 up to, not with, `n`; 0 for none.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        let bits = u64::BITS - n.leading_zeros();
        if n == 0 {
            return 0;
        }
        loop {
            let value = if bits <= 32 {
                u64::from(self.word() >> (32 - bits))
            } else {
                let low = u64::from(self.word());
                low | u64::from(self.word() >> (64 - bits)) << 32
            };
            if value < n {
                return value;
            }
        }
    }
}

/// The seed of a filter: as it was given, a number or text.
pub(super) fn seeded(seed: &Value) -> Twister {
    match i64::try_from(seed.clone()) {
        Ok(number) if seed.is_integer() => Twister::of_number(number),
        _ => Twister::of_text(&seed.to_string()),
    }
}

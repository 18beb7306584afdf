//! `password_hash`: hashes as in `/etc/shadow`.

use minijinja::value::Kwargs;
use minijinja::{Error, Value};
use sha_crypt::{Params, sha256_crypt, sha512_crypt};

use super::invalid;
use crate::registry::Registry;

pub(super) fn install(env: &mut Registry<'_>) {
    env.add_filter("password_hash", password_hash);
}

/// `$6$SALT$…` and `$5$SALT$…`. A salt is asked for: a new one in each run would change the file in each run.
fn password_hash(
    password: String,
    kind: Option<String>,
    salt: Option<Value>,
    rounds: Option<u32>,
    options: Kwargs,
) -> Result<String, Error> {
    let kind = options.get::<Option<String>>("hashtype")?.or(kind).unwrap_or_else(|| "sha512".to_owned());
    let salt = options.get::<Option<Value>>("salt")?.or(salt).filter(|salt| !salt.is_none());
    let rounds = options.get::<Option<u32>>("rounds")?.or(rounds);
    options.assert_all_used()?;
    // The rounds are those that Ansible takes, so that both make the same hash.
    let (long, usual) = match kind.as_str() {
        "sha512" | "sha512_crypt" => (true, 656_000),
        "sha256" | "sha256_crypt" => (false, 535_000),
        _ => {
            return Err(invalid(format!(
                "password_hash: `{kind}` is not made; write sha512 or sha256, which every login program reads"
            )));
        }
    };
    let Some(salt) = salt.map(|salt| salt.to_string()) else {
        return Err(invalid(
            "password_hash: a salt is wanted, since a new one in every run would change the file in every run; \
             write password_hash('sha512', salt), for example with 65534 | random(seed=inventory_hostname) | string",
        ));
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '/';
    if salt.is_empty() || salt.len() > 16 || !salt.chars().all(plain) {
        return Err(invalid("password_hash: a salt has 1 to 16 letters, digits, dots and slashes"));
    }
    let rounds = rounds.unwrap_or(usual);
    // Some seconds of work; crypt(3) would take a thousand million.
    crate::bounds::check("password_hash: `rounds`", rounds as usize, 5_000_000)?;
    let params =
        Params::new(rounds).map_err(|_| invalid("password_hash: `rounds` is from 1000 to 999999999"))?;
    // 5000 is what no number means.
    let prefix = if rounds == 5000 { String::new() } else { format!("rounds={rounds}$") };
    let (id, hash) = if long {
        ("6", spelled(&sha512_crypt(password.as_bytes(), salt.as_bytes(), params), true))
    } else {
        ("5", spelled(&sha256_crypt(password.as_bytes(), salt.as_bytes(), params), false))
    };
    Ok(format!("${id}${prefix}{salt}${hash}"))
}

/// The digest in the alphabet and the order of crypt(3): three bytes at a time, taken from three places that move in turn.
fn spelled(digest: &[u8], long: bool) -> String {
    const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let byte = |at: usize| digest.get(at).map_or(0, |byte| u32::from(*byte));
    let mut out = String::new();
    let mut put = |mut bits: u32, letters: usize| {
        for _ in 0..letters {
            let letter = usize::try_from(bits & 63).unwrap_or_default();
            out.push(ALPHABET.get(letter).map_or('.', |letter| char::from(*letter)));
            bits >>= 6;
        }
    };
    let (rounds, third) = if long { (21, 21) } else { (10, 10) };
    let (mut a, mut b, mut c) = (0, third, 2 * third);
    for _ in 0..rounds {
        put(byte(a) << 16 | byte(b) << 8 | byte(c), 4);
        (a, b, c) = if long { (b + 1, c + 1, a + 1) } else { (c + 1, a + 1, b + 1) };
    }
    if long {
        put(byte(63), 2);
    } else {
        put(byte(31) << 8 | byte(30), 3);
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::filters::check::table;

    /// Results of glibc's crypt(3) for the same arguments.
    #[test]
    fn hashes() {
        table(&[
            (
                "'Hello world!' | password_hash('sha512', 'saltstring', rounds=5000)",
                "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1",
            ),
            (
                "'Hello world!' | password_hash('sha256', 'saltstring', rounds=5000)",
                "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5",
            ),
            (
                "'Hello world!' | password_hash('sha256', 'saltstringsaltst', rounds=10000)",
                "$5$rounds=10000$saltstringsaltst$3xv.VbSHBb41AL9AvLeujZkZRBAwqFMz2.opqey6IcA",
            ),
            ("'x' | password_hash('sha512')", "!a salt is wanted"),
            ("'x' | password_hash('md5', 'a')", "!is not made"),
            ("'x' | password_hash('sha512', 'a b')", "!letters, digits"),
            ("'x' | password_hash('sha512', 'a', rounds=1)", "!from 1000"),
        ]);
    }
}

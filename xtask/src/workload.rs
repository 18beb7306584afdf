//! The bench's 20 configuration files: as templates for `converge`, and rendered for the floor, from one generator.

use crate::process::{Result, workspace};
use fs_err as fs;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Bytes that each template is filled up to.
const SIZES: [usize; 20] = [
    2440, 3180, 2710, 1750, 1650, 2120, 2280, 2760, 1910, 2650, 2120, 1490, 2440, 1700, 1330, 2070, 1220,
    1430, 2340, 1540,
];
/// Values of the role's inputs, as its `role.yaml` gives them.
const SITE: &str = "site-north";
const ACCELERATORS: &str = "8";
const TOGGLES: [&str; 6] = ["peer-access", "ecc", "persistence", "direct-io", "partitions", "telemetry"];

/// The folder of the templates.
pub fn template_dir() -> PathBuf {
    workspace().join("bench/workload/roles/gpu_node/templates")
}

/// Number `01` to `20` and text of each template.
pub fn templates() -> Vec<(String, String)> {
    numbered(|number, size| {
        let loop_ = "{% for toggle in toggles %}\nenable.{{ toggle }} = yes\n{% endfor %}\n";
        let head = head(number, "{{ inventory_hostname }}", "{{ site }}", "{{ accelerators }}");
        format!("{head}{}{loop_}", filling(number, size, "{{ site }}"))
    })
}

/// The templates as they are rendered for a host.
pub fn rendered(host: &str) -> Vec<(String, String)> {
    numbered(|number, size| {
        let mut text = head(number, host, SITE, ACCELERATORS);
        text.push_str(&filling(number, size, SITE));
        for toggle in TOGGLES {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "enable.{toggle} = yes");
        }
        text
    })
}

/// Writes the templates into the checkout.
pub fn write() -> Result<()> {
    for (number, text) in templates() {
        fs::write(template_dir().join(format!("{number}.conf.j2")), text)?;
    }
    Ok(())
}

fn numbered(make: impl Fn(usize, usize) -> String) -> Vec<(String, String)> {
    SIZES.iter().zip(1..).map(|(size, number)| (format!("{number:02}"), make(number, *size))).collect()
}

fn head(number: usize, host: &str, site: &str, accelerators: &str) -> String {
    format!(
        "# part {number:02} of the accelerator settings of {host} at {site}\n[part.{number}]\naccelerators = {accelerators}\n"
    )
}

/// Lines with numbers that look random and are the same everywhere; their count does not depend on `site`.
fn filling(number: usize, size: usize, site: &str) -> String {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64 ^ (number as u64);
    let mut text = String::new();
    for _ in 0..size / 56 {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let key = state % 1000;
        let _ = writeln!(text, "setting.{number:02}.{key:03} = \"{state:016x}-{site}\"");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_templates_are_the_generated_ones() {
        for (number, text) in templates() {
            let path = template_dir().join(format!("{number}.conf.j2"));
            assert_eq!(fs::read_to_string(path).unwrap(), text, "run `cargo xtask bench --write-templates`");
        }
    }

    #[test]
    fn sizes_are_those_of_real_configuration_files() {
        for (number, text) in templates() {
            assert!((1000..4096).contains(&text.len()), "{number}: {}", text.len());
        }
        assert_eq!(templates().len(), rendered("h1").len());
    }

    #[test]
    fn the_role_has_the_values_that_the_floor_is_rendered_with() {
        let role = fs::read_to_string(template_dir().join("../role.yaml")).unwrap();
        for word in TOGGLES.iter().chain([&SITE, &ACCELERATORS]) {
            assert!(role.contains(word), "{word}");
        }
    }
}

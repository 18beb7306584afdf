//! Commands of a script that fetch an address. It may hold a password, so it stands on no command line: others could read it in the list of
//! processes.

use converge_resource::quote;

/// curl with these options.
pub fn curl(url: &str, options: &str) -> String {
    let escaped = url.replace('\\', "\\\\").replace('"', "\\\"");
    format!("printf 'url = \"%s\"\\n' {} | curl {options} -K -", quote(&escaped))
}

/// wget with these options; that of busybox takes an address on its command line alone.
pub fn wget(url: &str, options: &str) -> String {
    let url = quote(url);
    format!(
        "if wget --version >/dev/null 2>&1; then printf '%s\\n' {url} | wget {options} -i -; else wget {options} -- {url}; fi"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_text_of_the_input() {
        let script = curl(r#"https://u:p"\x@h/'a'"#, "-sS").replace("| curl -sS -K -", "");
        let said = std::process::Command::new("sh").arg("-c").arg(script).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&said.stdout), "url = \"https://u:p\\\"\\\\x@h/'a'\"\n");
        assert!(!wget("https://h/x y", "-q").contains("-- https://h/x y"));
    }
}

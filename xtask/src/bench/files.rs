//! Many small files of one `for_each`: what each costs, and that the cost grows no faster than their number.

use super::{Bench, BenchRow};
use crate::process::{Result, output, run as run_command};
use converge_lab::Host;
use fs_err as fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Their folder on the host.
const FOLDER: &str = "srv/many";

impl Bench<'_> {
    /// On one host: making so many files, looking at them, changing all of them, and taking that back.
    pub(super) fn files(&self, host: &Host, number: usize, runs: usize) -> Result<Vec<BenchRow>> {
        let hosts = std::slice::from_ref(host);
        let inventory = self.inventory(hosts)?;
        let project = self.scratch.join("many");
        let row = |case, aim| BenchRow::new(case, 1, 0, aim);
        let mut rows = [
            row("make many files", 10.0),
            row("no-op, many files", 3.0),
            row("change many files", 20.0),
            row("roll that back", 20.0),
        ];
        let look = self.scratch.join("look.sh");
        fs::write(
            &look,
            format!("cd /{FOLDER} && stat -c '%f %a %U %G %s %n' -- * && sha256sum -- * >/dev/null\n"),
        )?;
        let payloads = ["one", "two"].map(|text| self.tar_of(number, text));
        let [one, two] = payloads;
        let (one, two) = (one?, two?);
        let unpack = "tar -xf - -C / && sync";
        for turn in 1..=runs {
            self.fresh(hosts, 0)?;
            let mut floors = Vec::new();
            for payload in [&one, &two, &one] {
                floors.push(self.side_by_side(hosts, std::slice::from_ref(payload), unpack)?);
            }
            let floor_look = self.side_by_side(hosts, std::slice::from_ref(&look), "sh -s")?;
            self.fresh(hosts, 0)?;
            let mut took = Vec::new();
            for (text, arguments) in
                [("one", "apply"), ("one", "apply"), ("two", "apply"), ("two", "rollback")]
            {
                write_project(&project, number, text)?;
                let mut command = Command::new(self.converge);
                command.arg(arguments).arg(&inventory).arg("--yes");
                command.arg("--playbook").arg(project.join("playbooks/site.yaml"));
                let start = Instant::now();
                output(&mut command)?;
                took.push(start.elapsed().as_secs_f64());
            }
            let floors = [floors.first(), Some(&floor_look), floors.get(1), floors.get(2)];
            for ((row, floor), took) in rows.iter_mut().zip(floors).zip(took) {
                let floor = floor.copied().unwrap_or(f64::NAN);
                println!(
                    "{}, {number} files, run {turn}: floor {floor:.2} s, converge {took:.2} s",
                    row.case
                );
                row.floor.push(floor);
                row.converge.push(took);
            }
        }
        Ok(rows.into())
    }

    /// The archive that the floor (the fastest possible way) unpacks.
    fn tar_of(&self, number: usize, text: &str) -> Result<PathBuf> {
        let tree = self.scratch.join(format!("many-{text}"));
        let folder = tree.join(FOLDER);
        fs::create_dir_all(&folder)?;
        for file in 0..number {
            fs::write(folder.join(file.to_string()), format!("{text} {file}\n"))?;
        }
        let payload = tree.with_extension("tar");
        let mut tar = Command::new("tar");
        tar.arg("-C").arg(&tree).args(["--owner=0", "--group=0", "--mode=u=rwX,go=rX", "-cf"]).arg(&payload);
        run_command(tar.arg(FOLDER))?;
        Ok(payload)
    }
}

fn write_project(project: &Path, number: usize, text: &str) -> Result<()> {
    let role = project.join("roles/many");
    fs::create_dir_all(&role)?;
    fs::create_dir_all(project.join("playbooks"))?;
    fs::write(project.join("playbooks/site.yaml"), "- hosts: all\n  roles: [many]\n")?;
    let role_text = format!(
        "resources:\n  - name: folder\n    directory: {{path: /{FOLDER}}}\n  - name: file\n    for_each: \"{{{{ range(0, {number}) | list }}}}\"\n    \
         file: {{path: \"/{FOLDER}/{{{{ item }}}}\", content: \"{text} {{{{ item }}}}\\n\"}}\n"
    );
    Ok(fs::write(role.join("role.yaml"), role_text)?)
}

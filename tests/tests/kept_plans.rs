//! A kept plan is applied as it was shown, whatever the clock and chance say by then.

use converge_tests::World;

const ROLE: &str = "
resources:
  - name: time and chance
    file:
      path: /etc/moment
      content: |
        made {{ now(utc=true, fmt='%H:%M:%S.%f') }}
        number {{ 1000000000 | random }}
        order {{ range(20) | list | shuffle | join(' ') }}
";

#[test]
fn time_and_chance_are_those_of_the_plan() {
    let world = World::new("words-moment", 1).unwrap();
    world.only_role("moment", ROLE).unwrap();
    let shown = |text: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.trim().strip_prefix('+'));
        let ours = ["made ", "number ", "order "];
        lines.filter(|line| ours.iter().any(|o| line.starts_with(o))).map(str::to_owned).collect()
    };
    let kept = world.converge(&["plan", "hosts.yaml", "--out", "kept.plan"]).unwrap().expect(2);
    let other = world.converge(&["plan", "hosts.yaml"]).unwrap().expect(2);
    assert_eq!(shown(&kept.stdout).len(), 3, "{}", kept.stdout);
    for (one, two) in shown(&kept.stdout).iter().zip(shown(&other.stdout)) {
        assert_ne!(*one, two, "two runs say the same");
    }
    let applied = world.converge(&["apply", "kept.plan", "--yes"]).unwrap().expect(0);
    assert!(!applied.all().contains("refused"), "{}", applied.all());
    let there = world.hosts()[0].exec("cat /etc/moment").unwrap();
    assert_eq!(there.stdout.lines().collect::<Vec<_>>(), shown(&kept.stdout));
    // Of another version: the file says so, and nothing is applied.
    let path = world.dir().join("kept.plan");
    let text = std::fs::read_to_string(&path).unwrap().replacen("\"version\":2", "\"version\":1", 1);
    std::fs::write(&path, text).unwrap();
    world
        .converge(&["apply", "kept.plan", "--yes"])
        .unwrap()
        .expect(64)
        .says("version 1")
        .says("Make it again");
}

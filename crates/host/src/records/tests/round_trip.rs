//! Every path comes back: forward to a drawn state, and undone.

use super::*;

#[derive(Clone, Debug)]
enum Shape {
    Absent,
    File(Vec<u8>, u32),
    Dir(u32),
    Link(String),
}

fn shape() -> impl Strategy<Value = Shape> {
    prop_oneof![
        Just(Shape::Absent),
        (proptest::collection::vec(any::<u8>(), 0..40), prop_oneof![Just(0o600), Just(0o4755)])
            .prop_map(|(bytes, mode)| Shape::File(bytes, mode)),
        Just(Shape::Dir(0o1777)),
        // Some lead to another path of the tree, or to themselves.
        prop_oneof!["[ -~☃]{1,9}", "[ab./]{1,3}"].prop_map(Shape::Link),
    ]
}

fn build(shape: &Shape, path: &Path) {
    let set = |mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    match shape {
        Shape::Absent => {}
        Shape::File(bytes, mode) => {
            std::fs::write(path, bytes).unwrap();
            set(*mode);
        }
        Shape::Dir(mode) => {
            std::fs::create_dir(path).unwrap();
            set(*mode);
        }
        Shape::Link(target) => symlink(target, path).unwrap(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn forward_then_undo_restores_every_path(
        tree in proptest::collection::btree_map(
            prop_oneof!["[a-z '\"é]{1,6}", "[ab]"],
            proptest::collection::vec(shape(), 2..4), 1..4)
    ) {
        for host in hosts() {
            let rounds = tree.values().map(Vec::len).max().unwrap_or(0);
            let mut lines: BTreeMap<&String, Vec<State>> = BTreeMap::new();
            for (name, shapes) in &tree {
                for shape in shapes {
                    // Each wanted line is taken from a real path beside the tree.
                    let model = host.dir.path().join("model");
                    build(shape, &model);
                    lines.entry(name).or_default().push(host.line(&model));
                    if model.is_symlink() || model.is_file() { std::fs::remove_file(&model).unwrap(); }
                    if model.is_dir() { std::fs::remove_dir(&model).unwrap(); }
                }
                build(&shapes[0], &host.file(name));
            }
            let contents: Vec<&[u8]> = tree.values().flatten().filter_map(|s| match s {
                Shape::File(bytes, _) => Some(bytes.as_slice()),
                _ => None,
            }).collect();
            // One run of several items, each over all paths; the second edit of a path sees the first one's result.
            let mut body = String::new();
            let mut seq = 0;
            for round in 1..rounds {
                let changes: Vec<Change> = lines.iter().filter_map(|(name, lines)| {
                    let (from, to) = (lines.get(round - 1)?, lines.get(round)?);
                    let object = ObjectId::new("path", host.file(name).to_str().unwrap());
                    (from != to).then(|| Change { object, from: from.clone(), to: to.clone() })
                }).collect();
                if changes.is_empty() { continue; }
                let mut item = ItemSpec { run: "r1".to_owned(), ..spec(changes) };
                for row in &mut item.rows { seq += 1; row.seq = seq; }
                body.push_str(&host.item(&item, &contents));
            }
            let output = host.run("r1", &[], &body);
            let reply = String::from_utf8_lossy(&output.stdout).into_owned();
            prop_assert!(reply.lines().filter(|l| l.starts_with("status")).all(|l| l == "status 0"), "{reply}");
            for (name, lines) in &lines {
                prop_assert_eq!(&host.line(&host.file(name)), lines.last().unwrap());
            }
            let (status, reply) = host.undo(&[]);
            prop_assert_eq!(status, Some(0), "{}", reply);
            for (name, lines) in &lines {
                prop_assert_eq!(&host.line(&host.file(name)), &lines[0], "{}", reply);
                prop_assert!(PathState::try_from(lines[0].clone()).is_ok());
            }
        }
    }
}

//! Every state comes back: forward to a drawn state, and backward.

use super::*;

#[derive(Clone, Debug)]
enum Shape {
    Absent,
    File(Vec<u8>, u32),
    Dir(u32),
    Link(String),
}

fn shape() -> impl Strategy<Value = Shape> {
    let mode = prop_oneof![Just(0o600), Just(0o644), Just(0o755), Just(0o4711), Just(0o444)];
    prop_oneof![
        Just(Shape::Absent),
        (proptest::collection::vec(any::<u8>(), 0..200), mode).prop_map(|(b, m)| Shape::File(b, m)),
        prop_oneof![Just(0o700), Just(0o755), Just(0o1777), Just(0o2750)].prop_map(Shape::Dir),
        "[ -~é☃]{1,20}".prop_map(Shape::Link),
    ]
}

fn build(shape: &Shape, path: &FsPath) {
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
        Shape::Link(target) => symlink(std::ffi::OsStr::from_bytes(target.as_bytes()), path).unwrap(),
    }
}

fn forward_then_backward(shell: &TestShell, cases: &[(String, Shape, Shape)]) {
    let (root, here, there) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (name, from, to) in cases {
        let path = here.path().join(name);
        let wanted = there.path().join(name);
        if std::fs::symlink_metadata(&path).is_ok() {
            continue;
        }
        build(from, &path);
        build(to, &wanted);
        let (before, after) = (state_of(&path), state_of(&wanted));
        let from_line = State::from(before.clone());
        shell.good(root.path(), "cv_save_path \"$1\" \"$2\"", &[key(&path), from_line.line()], b"");
        let content = match to {
            Shape::File(bytes, _) => bytes.clone(),
            _ => Vec::new(),
        };
        if before != after {
            for step in Path::steps(&[(key(&path), before.clone(), after.clone())]) {
                assert_eq!(
                    step.stdin.is_some(),
                    step.script.starts_with("cv_apply_path") && !content_free(to)
                );
                shell.good(root.path(), &step.script, &[], &content);
            }
        }
        assert_eq!(shell.see::<Path>(root.path(), key(&path)).state, State::from(after.clone()));
        assert_eq!(state_of(&path), after);
        shell.good(root.path(), "cv_restore_path \"$1\" \"$2\"", &[key(&path), from_line.line()], b"");
        assert_eq!(state_of(&path), before, "{}: {name}", shell.name);
    }
}

fn content_free(shape: &Shape) -> bool {
    !matches!(shape, Shape::File(..))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    #[test]
    fn forward_then_backward_restores(
        cases in proptest::collection::vec(("[a-z '\"$é☃-]{1,12}", shape(), shape()), 1..5)
    ) {
        let tools = tempfile::tempdir().unwrap();
        for shell in shells(tools.path()) {
            forward_then_backward(&shell, &cases);
        }
    }

    #[test]
    fn the_hosts_encoding_is_the_controllers(text in "\\PC{0,30}") {
        let tools = tempfile::tempdir().unwrap();
        for shell in shells(tools.path()) {
            let encoded = converge_resource::encode_field(&text);
            let root = tools.path();
            let printed = shell.good(root, "cv_enc \"$1\"", &[&text], b"");
            prop_assert_eq!(printed.trim_end(), &encoded);
            prop_assert_eq!(shell.good(root, "cv_dec \"$1\"", &[&encoded], b""), text.clone());
        }
    }
}

//! The framed shell over a child process, in dash, bash and busybox ash.

use crate::common::{local, shells};
use bytes::Bytes;
use converge_ssh::*;

fn text(result: &ShellItemResult) -> String {
    String::from_utf8_lossy(&result.output).into_owned()
}

fn status(result: &ShellItemResult) -> Status {
    match result.outcome {
        ShellOutcome::Finished { status, .. } => status,
        ref other => panic!("item {} ended as {other:?}: {}", result.id, text(result)),
    }
}

async fn all(shell: &Shell, batch: &Batch) -> Vec<ShellItemResult> {
    let (results, error) = shell.run_to_end(batch).await.unwrap();
    assert!(error.is_none(), "{error:?}");
    results
}

#[tokio::test]
async fn items_cannot_break_the_loop() {
    for words in shells() {
        let shell = local(&words).await;
        let scripts: Vec<(&str, i32, &str)> = vec![
            ("echo plain", 0, "plain\n"),
            ("exit 7", 7, ""),
            ("cat", 0, ""),
            ("read -r x || echo none", 0, "none\n"),
            ("set -e; false; echo not reached", 1, ""),
            ("cd /usr; IFS=x; set -u; umask 0; PATH=/nowhere; trap 'echo bye' EXIT", 0, "bye\n"),
            ("pwd; umask; echo a b | { read -r x y; echo $y; }", 0, "/\n0077\nb\n"),
            ("sleep 300 & echo started", 0, "started\n"),
            ("exec >&- 2>&-; true", 0, ""),
            ("exec 3<&-; cat <&3", -1, ""),
            ("printf 'no newline'", 0, "no newline"),
            ("echo out; echo err >&2", 0, "out\nerr\n"),
            ("kill -9 $(sh -c 'echo $PPID')", 137, ""),
            ("unset -f _cv_f _cv_i; unset _cv_a _cv_ok; alias echo=false; _cv_f() { :; }", 0, ""),
            ("set -x; set -v; : ", 0, "+ : \n"),
            ("printf '%s\\n' 'it'\\''s $HOME `x` \"q\" \\ !'", 0, "it's $HOME `x` \"q\" \\ !\n"),
            ("echo \"$LC_ALL $# $0\"", 0, "C 0 sh\n"),
            ("# only a comment", 0, ""),
            ("", 0, ""),
        ];
        let items = scripts.iter().zip(0..).map(|((script, ..), id)| ShellItem::new(id, *script)).collect();
        let results = all(&shell, &Batch::of(items)).await;
        for (result, (script, code, output)) in results.iter().zip(&scripts) {
            if *code >= 0 {
                assert_eq!(status(result), Status::Exited(*code), "{words:?}: {script}: {}", text(result));
                if !script.starts_with("set -x") {
                    assert_eq!(text(result), *output, "{words:?}: {script}");
                }
            } else {
                assert!(!status(result).success(), "{words:?}: {script}");
            }
        }
        let syntax = all(
            &shell,
            &Batch::of(vec![
                ShellItem::new(1, "if then ("),
                ShellItem::new(2, "echo 'unclosed"),
                ShellItem::new(3, "echo on"),
            ]),
        )
        .await;
        assert!(!status(&syntax[0]).success() && !status(&syntax[1]).success(), "{words:?}");
        assert_eq!(text(&syntax[2]), "on\n", "{words:?}");
        shell.close().await;
    }
}

#[tokio::test]
async fn the_two_streams_need_not_keep_step() {
    for words in shells() {
        let shell = local(&words).await;
        let asks = |n: u32| {
            let script = format!("sleep 0.1; echo out {n}; echo err {n} >&2");
            Batch::of(vec![ShellItem { stderr: Stderr::Separate, ..ShellItem::new(1, script) }])
        };
        // Nobody reads until both have run: then all of one stream comes before the other.
        let deaf = async {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            std::thread::sleep(std::time::Duration::from_millis(600));
        };
        let (one, two) = (asks(1), asks(2));
        let (one, two, ()) = tokio::join!(all(&shell, &one), all(&shell, &two), deaf);
        for (result, n) in [(&one[0], 1), (&two[0], 2)] {
            let reply = String::from_utf8_lossy(&result.stderr);
            assert_eq!((text(result), reply.as_ref()), (format!("out {n}\n"), format!("err {n}\n").as_str()));
        }
        shell.close().await;
    }
}

#[tokio::test]
async fn payloads_are_exact_and_drained() {
    let mut binary: Vec<u8> = (0..=255u8).cycle().take(300_001).collect();
    binary.extend_from_slice(b"\n'\\\0\xff\n");
    for words in shells() {
        let shell = local(&words).await;
        let with = |id, script: &str, payload: &[u8]| ShellItem {
            payload: Some(Bytes::copy_from_slice(payload)),
            ..ShellItem::new(id, script)
        };
        let items = vec![
            with(0, "cat", &binary),
            with(1, "true", &binary),
            with(2, "head -c 10", b"0123456789abc"),
            ShellItem { needs: vec![4], ..with(5, "cat", &binary) },
            with(6, "exit 3", &binary),
            with(7, "wc -c", &binary[..65536]),
            with(8, "wc -c", &binary[..1]),
            with(9, "wc -c", b""),
            ShellItem::new(10, "wc -c"),
        ];
        let mut items = items;
        items.insert(3, ShellItem::new(4, "false"));
        let results = all(&shell, &Batch::of(items)).await;
        let by = |id| results.iter().find(|result| result.id == id).unwrap();
        assert!(by(0).output == binary, "{words:?}: {} bytes came back", by(0).output.len());
        assert_eq!(status(by(1)), Status::Exited(0));
        assert_eq!(text(by(2)), "0123456789");
        assert_eq!(by(5).outcome, ShellOutcome::Skipped(Because::Need(4)));
        assert_eq!(status(by(6)), Status::Exited(3));
        for (id, size) in [(7, "65536"), (8, "1"), (9, "0"), (10, "0")] {
            assert_eq!(text(by(id)).trim(), size, "{words:?}");
        }
        shell.close().await;
    }
}

#[tokio::test]
async fn needs_prelude_and_several_batches() {
    for words in shells() {
        let shell = local(&words).await;
        let need = |id, needs: &[u32], script: &str| ShellItem {
            needs: needs.to_vec(),
            ..ShellItem::new(id, script)
        };
        let batch = Batch {
            prelude: Some("greet() { echo \"hello $1 $who\"; }\nwho='you'\\''s'".to_owned()),
            items: vec![
                need(1, &[], "greet 1"),
                need(2, &[1], "greet 2; who=changed; greet() { false; }; exit 1"),
                need(3, &[2], "greet 3"),
                need(4, &[3, 1], "greet 4"),
                need(5, &[1], "greet 5"),
            ],
            ..Batch::default()
        };
        let results = all(&shell, &batch).await;
        assert_eq!(text(&results[0]), "hello 1 you's\n", "{words:?}");
        assert_eq!(status(&results[1]), Status::Exited(1));
        assert_eq!(results[2].outcome, ShellOutcome::Skipped(Because::Need(2)));
        assert_eq!(results[3].outcome, ShellOutcome::Skipped(Because::Need(3)));
        assert_eq!(text(&results[4]), "hello 5 you's\n");
        // Functions stay for later batches; two of them may be under way.
        let mut first = shell.run(&Batch::of(vec![ShellItem::new(1, "greet again")])).unwrap();
        let second = all(&shell, &Batch::of(vec![ShellItem::new(1, "greet last")])).await;
        assert_eq!(text(&second[0]), "hello last you's\n");
        let mut events = Vec::new();
        while let Some(event) = first.next().await {
            events.push(event.unwrap());
        }
        assert_eq!(events[0], ShellEvent::Started(1));
        assert!(
            matches!(&events[1], ShellEvent::Output { id: 1, bytes, stderr: false } if bytes == "hello again you's\n")
        );
        assert!(matches!(
            events[2],
            ShellEvent::Finished { id: 1, status: Status::Exited(0), cut: false, .. }
        ));
        assert_eq!(events.len(), 3);
        shell.close().await;
    }
}

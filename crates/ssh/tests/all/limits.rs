//! Limits: time, size, stopping, and hosts that do not keep to the rules.

use crate::common::{local, options, shells, with};
use bytes::Bytes;
use converge_ssh::*;
use std::time::{Duration, Instant};

fn timed(id: u32, script: &str, seconds: u64) -> ShellItem {
    ShellItem { timeout: Some(Duration::from_secs(seconds)), ..ShellItem::new(id, script) }
}

#[tokio::test]
async fn an_item_past_its_limit_is_ended_with_its_children_and_the_rest_goes_on() {
    for words in shells() {
        let shell = local(&words).await;
        let batch = Batch::of(vec![
            timed(1, "trap '' TERM; echo begun; sleep 987 & sleep 988; echo never", 1),
            ShellItem {
                payload: Some(Bytes::from(vec![b'x'; 400_000])),
                ..timed(2, "echo begun; sh -c 'sleep 989; echo never'", 1)
            },
            ShellItem { needs: vec![2], ..ShellItem::new(3, "true") },
            ShellItem::new(4, "echo on"),
        ]);
        let began = Instant::now();
        let (results, error) = shell.run_to_end(&batch).await.unwrap();
        assert!(error.is_none(), "{words:?} {error:?}");
        for at in [0, 1] {
            assert!(
                matches!(results[at].outcome, ShellOutcome::Finished { status: Status::TimedOut, .. }),
                "{words:?}: {:?}",
                results[at]
            );
            assert!(results[at].output.starts_with(b"begun\n") && !results[at].output.ends_with(b"never\n"));
        }
        assert_eq!(results[2].outcome, ShellOutcome::Skipped(Because::Need(2)));
        assert_eq!(results[3].output, b"on\n");
        assert!(began.elapsed() < Duration::from_secs(60), "{words:?}");
        let (left, _) = shell
            .run_to_end(&Batch::of(vec![ShellItem::new(
                1,
                "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '",
            )]))
            .await
            .unwrap();
        let left = String::from_utf8_lossy(&left[0].output).into_owned();
        for sleeper in ["sleep 987", "sleep 988", "sleep 989"] {
            // Other tests' shells may sleep, but not this long.
            assert!(!left.contains(sleeper), "{words:?}: {sleeper} is still there");
        }
        shell.close().await;
    }
}

/// The limit of an item counts time without progress: input that arrives slowly is not cut off after most of it.
#[tokio::test]
async fn an_input_that_takes_longer_than_the_limit_arrives_as_long_as_it_moves() {
    const PARTS: usize = 48;
    // One part each time, to the end; it says how many bytes there were.
    let slow_reader = "n=0; while x=$(dd bs=65536 count=1 2>/dev/null | wc -c); [ \"$x\" -gt 0 ]; do n=$((n + x)); sleep 0.1; done; echo $n";
    let payload = Bytes::from(vec![b'x'; PARTS << 16]);
    let mut all = tokio::task::JoinSet::new();
    for words in shells() {
        let payload = payload.clone();
        all.spawn(async move {
            let shell = local(&words).await;
            let batch = Batch::of(vec![
                ShellItem { payload: Some(payload.clone()), ..timed(1, slow_reader, 2) },
                // A reader that stops is ended nevertheless.
                ShellItem {
                    payload: Some(payload),
                    ..timed(2, "dd bs=65536 count=1 >/dev/null 2>&1; sleep 986", 2)
                },
                ShellItem::new(3, "echo on"),
            ]);
            let (results, error) = shell.run_to_end(&batch).await.unwrap();
            assert!(error.is_none(), "{words:?} {error:?}");
            let ShellOutcome::Finished { status: Status::Exited(0), duration } = results[0].outcome else {
                panic!("{words:?}: {:?}", results[0]);
            };
            assert!(duration > Duration::from_secs(4), "{words:?}: it was not slow: {duration:?}");
            assert_eq!(results[0].output, format!("{}\n", PARTS << 16).into_bytes(), "{words:?}");
            assert!(
                matches!(results[1].outcome, ShellOutcome::Finished { status: Status::TimedOut, .. }),
                "{words:?}: {:?}",
                results[1]
            );
            assert_eq!(results[2].output, b"on\n");
            shell.close().await;
        });
    }
    while let Some(ended) = all.join_next().await {
        ended.unwrap();
    }
}

/// A host that answers each question within its limit, and never comes to an end, or says much each time.
#[tokio::test]
async fn the_answers_to_several_batches_have_one_room() {
    let shell = local(&["sh".to_owned()]).await;
    let ask = |script: &str| Batch::of((1..=4).map(|id| timed(id, script, 60)).collect());
    let mut room = Room { time: Some(Duration::from_millis(2500)), bytes: None };
    let began = Instant::now();
    let (_, error) = shell.run_within(&ask("sleep 0.3"), &mut room).await.unwrap();
    assert!(error.is_none(), "{error:?}");
    assert!(room.time.unwrap() < Duration::from_millis(1400) && !room.is_used_up(), "{room:?}");
    let (_, error) = shell.run_within(&ask("echo said; sleep 0.6"), &mut room).await.unwrap();
    let open = match error {
        Some(ShellError::Exhausted { time: true, open }) => open,
        other => panic!("{other:?}"),
    };
    assert!(room.is_used_up() && began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert!(open.ends_with(&[4]), "{open:?}");
    // The shell goes on, and another room is another matter.
    let (results, error) = shell.run_within(&ask("echo on"), &mut Room::default()).await.unwrap();
    assert!(error.is_none() && results[3].output == b"on\n", "{error:?}");

    let mut room = Room { time: None, bytes: Some(250_000) };
    let much = "head -c 50000 /dev/zero";
    let (_, error) = shell.run_within(&ask(much), &mut room).await.unwrap();
    assert!(error.is_none() && room.bytes == Some(50_000), "{error:?} {room:?}");
    let (_, error) = shell.run_within(&ask(much), &mut room).await.unwrap();
    assert!(matches!(&error, Some(ShellError::Exhausted { time: false, .. })), "{error:?}");
    assert!(room.is_used_up());
}

#[tokio::test]
async fn standard_error_is_merged_or_kept_apart() {
    for words in shells() {
        let shell = local(&words).await;
        let script = "echo out1; echo err1 >&2; echo out2; echo err2 >&2";
        let apart = |id| ShellItem { stderr: Stderr::Separate, ..ShellItem::new(id, script) };
        let batch = Batch::of(vec![
            apart(1),
            ShellItem::new(2, script),
            ShellItem { payload: Some(Bytes::from_static(b"in\n")), ..apart(3) },
            apart(4),
            ShellItem {
                stderr: Stderr::Separate,
                ..ShellItem::new(5, "head -c 500000 /dev/zero >&2; exit 4")
            },
            apart(6),
        ]);
        let (results, error) = shell.run_to_end(&batch).await.unwrap();
        assert!(error.is_none(), "{error:?}");
        for at in [0, 2, 3, 5] {
            assert_eq!(results[at].output, b"out1\nout2\n", "{words:?}");
            assert_eq!(results[at].stderr, b"err1\nerr2\n", "{words:?}");
        }
        assert_eq!(results[1].output, b"out1\nerr1\nout2\nerr2\n");
        assert!(results[1].stderr.is_empty());
        assert_eq!(results[4].stderr.len(), 500_000);
        shell.close().await;
    }
}

#[tokio::test]
async fn output_beyond_the_limit_is_dropped_and_flagged() {
    let shell = with(SessionOptions { max_output: 1000, ..options() }).await;
    let batch = Batch::of(vec![
        ShellItem::new(1, "head -c 5000000 /dev/zero; exit 3"),
        ShellItem { stderr: Stderr::Separate, ..ShellItem::new(2, "echo out; head -c 5000 /dev/zero >&2") },
        ShellItem::new(3, "head -c 1000 /dev/zero"),
    ]);
    let (results, error) = shell.run_to_end(&batch).await.unwrap();
    assert!(error.is_none());
    assert_eq!((results[0].output.len(), results[0].cut), (1000, true));
    assert!(matches!(results[0].outcome, ShellOutcome::Finished { status: Status::Exited(3), .. }));
    assert_eq!((results[1].output.len(), results[1].stderr.len(), results[1].cut), (4, 1000, true));
    assert_eq!((results[2].output.len(), results[2].cut), (1000, false));
}

#[tokio::test]
async fn a_caller_that_takes_nothing_does_not_make_memory_grow() {
    let shell = with(SessionOptions { max_queued: 100_000, ..options() }).await;
    let items = (0..50).map(|id| ShellItem::new(id, "head -c 50000 /dev/zero")).collect();
    let mut unread = shell.run(&Batch::of(items)).unwrap();
    let (_, error) = shell.run_to_end(&Batch::of(vec![ShellItem::new(1, "true")])).await.unwrap();
    assert!(error.is_none());
    let (mut size, mut cut_items) = (0, 0);
    while let Some(event) = unread.next().await {
        match event.unwrap() {
            ShellEvent::Output { bytes, .. } => size += bytes.len(),
            ShellEvent::Finished { cut: true, .. } => cut_items += 1,
            _ => {}
        }
    }
    assert_eq!(size, 100_000);
    assert_eq!(cut_items, 48);
}

#[tokio::test]
async fn a_stop_is_honoured_between_items() {
    let dir = tempfile::tempdir().unwrap();
    let stop = dir.path().join("stop").to_str().unwrap().to_owned();
    let session = Session::connect(&SshEndpoint::local("here"), &options()).await.unwrap();
    let shell = session.shell(&Become::None).await.unwrap();
    let other = session.shell(&Become::None).await.unwrap();
    let batch = Batch {
        stop_file: Some(stop.clone()),
        items: vec![
            ShellItem::new(
                1,
                format!(
                    "echo in flight; while ! test -e {}; do sleep 0.05; done; echo finished",
                    quote(&stop)
                ),
            ),
            ShellItem::new(2, "echo never"),
            ShellItem { payload: Some(Bytes::from_static(b"junk junk")), ..ShellItem::new(3, "cat") },
        ],
        ..Batch::default()
    };
    let mut events = shell.run(&batch).unwrap();
    let mut observed = Vec::new();
    while let Some(event) = events.next().await {
        let event = event.unwrap();
        if matches!(event, ShellEvent::Output { id: 1, .. }) && observed.len() == 1 {
            let raise = ShellItem::new(1, format!(": >{}", quote(&stop)));
            other.run_to_end(&Batch::of(vec![raise])).await.unwrap();
        }
        observed.push(event);
    }
    assert!(observed.contains(&ShellEvent::Skipped { id: 2, because: Because::Stopped }), "{observed:?}");
    assert!(observed.contains(&ShellEvent::Skipped { id: 3, because: Because::Stopped }));
    assert!(
        observed
            .iter()
            .any(|event| matches!(event, ShellEvent::Finished { id: 1, status: Status::Exited(0), .. }))
    );
    // The next batch of the same shell has no stop file, and starts at the right byte.
    let (results, error) = shell.run_to_end(&Batch::of(vec![ShellItem::new(1, "echo on")])).await.unwrap();
    assert!(error.is_none() && results[0].output == b"on\n");
}

#[tokio::test]
async fn a_failing_prelude_stops_its_batch_only() {
    for words in shells() {
        let shell = local(&words).await;
        let bad = Batch {
            prelude: Some("echo why >&2; no_such_command".to_owned()),
            items: vec![ShellItem {
                payload: Some(Bytes::from_static(b"junk\njunk")),
                ..ShellItem::new(1, "cat")
            }],
            ..Batch::default()
        };
        let (results, error) = shell.run_to_end(&bad).await.unwrap();
        assert!(
            matches!(&error, Some(ShellError::Prelude { status: 127, reply }) if reply.contains("why")),
            "{error:?}"
        );
        assert_eq!(results[0].outcome, ShellOutcome::Unknown);
        let (results, error) =
            shell.run_to_end(&Batch::of(vec![ShellItem::new(1, "echo on")])).await.unwrap();
        assert!(error.is_none() && results[0].output == b"on\n", "{error:?}");

        let deadly = Batch {
            prelude: Some("echo last words; exit 5".to_owned()),
            items: vec![ShellItem::new(1, "true")],
            ..Batch::default()
        };
        let (_, error) = shell.run_to_end(&deadly).await.unwrap();
        assert!(
            matches!(&error, Some(ShellError::Prelude { reply, .. }) if reply.contains("last words")),
            "{error:?}"
        );
    }
}

/// A "shell" that is a script: `$0` is what our loop would be given.
async fn fake(script: &str, limits: SessionOptions) -> (Vec<ShellItemResult>, ShellError) {
    // `-c LOOP sh A B` follow; the greeting is A and B in one piece.
    let words = ["sh", "-c", script, "fake"].map(str::to_owned).to_vec();
    let shell = with(SessionOptions { shell: words, ..limits }).await;
    let (results, error) = shell
        .run_to_end(&Batch::of(vec![ShellItem::new(1, "true"), ShellItem::new(2, "true")]))
        .await
        .unwrap();
    (results, error.expect("an error"))
}

/// Greets, reads the nonce into `$m`, and leaves the rest to `$1`.
fn fluent(rest: &str) -> String {
    format!("echo \"$4$5 1\"; read -r loop; read -r k a b; m=$a$b; {rest}")
}

#[tokio::test]
async fn hosts_that_break_the_rules_get_an_error_and_never_hang() {
    let short = || SessionOptions {
        start_timeout: Duration::from_secs(1),
        silence_timeout: Duration::from_secs(1),
        ..options()
    };
    let (_, error) = fake("sleep 60", short()).await;
    assert!(matches!(&error, ShellError::Deadline { item: None, .. }), "{error}");
    let (_, error) = fake("echo 'This account is not available.'; exit 1", options()).await;
    assert!(matches!(&error, ShellError::NotStarted { reply } if reply.contains("not available")), "{error}");
    let (_, error) = fake("cat /dev/zero", options()).await;
    assert!(matches!(&error, ShellError::Garbage { .. }), "{error}");

    for (rest, says) in [
        ("echo \"$m what is this\"; sleep 60", "what is this"),
        ("echo \"$m S 77 0 1\"; sleep 60", "S 77"),
        ("echo \"$m E 1 0 0\"; sleep 60", "E 1"),
        ("echo \"$m S 1 0 1\"; echo \"$m S 2 0 1\"; sleep 60", "S 2"),
        ("echo \"$m S 1 0 1\"; echo \"$m E 1 0 0\"; echo \"$m S 1 0 1\"; sleep 60", "S 1"),
        ("echo \"$m D\"; sleep 60", "D"),
        ("echo \"$m K 1 X\"; sleep 60", "K 1 X"),
        ("printf %s \"$m\"; head -c 999 /dev/zero; sleep 60", "endless line"),
        ("while :; do echo noise noise noise noise noise noise noise noise; done", "flood"),
        ("echo \"$m S 1\" >&2; sleep 60", "standard error"),
    ] {
        let (_, error) = fake(&fluent(rest), options()).await;
        assert!(matches!(&error, ShellError::Garbage { what, .. } if what.contains(says)), "{rest}: {error}");
    }
    let (results, error) = fake(&fluent("echo \"$m S 1 0 -\"; sleep 60"), short()).await;
    assert!(matches!(&error, ShellError::Deadline { item: Some(1), open, .. } if *open == [1, 2]), "{error}");
    assert_eq!((&results[0].outcome, &results[1].outcome), (&ShellOutcome::Lost, &ShellOutcome::Unknown));
    let (_, error) = fake(&fluent("echo \"$m S 1 0 -\"; echo last words >&2; exit 9"), options()).await;
    assert!(
        matches!(&error, ShellError::Closed { reply, terminated: false, open } if reply.contains("last words") && *open == [1, 2]),
        "{error}"
    );
    let (_, error) = fake(&fluent("echo \"$m S 1 0 -\"; kill -TERM $$"), options()).await;
    assert!(matches!(&error, ShellError::Closed { terminated: true, .. }), "{error}");
}

#[tokio::test]
async fn the_loop_ends_with_its_input_and_a_text_cut_short_runs_nothing() {
    for words in shells() {
        let shell = local(&words).await;
        let (results, _) = shell.run_to_end(&Batch::of(vec![ShellItem::new(1, "echo $$")])).await.unwrap();
        let pid = String::from_utf8(results[0].output.clone()).unwrap().trim().to_owned();
        let there = || std::path::Path::new("/proc").join(&pid).exists();
        assert!(there());
        shell.close().await;
        let until = Instant::now() + Duration::from_secs(10);
        while there() {
            assert!(Instant::now() < until, "{words:?}: the loop is still there");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test]
async fn a_shell_that_cannot_start_says_so() {
    let session = Session::connect(
        &SshEndpoint::local("here"),
        &SessionOptions { shell: vec!["/no/such/shell".to_owned()], ..options() },
    )
    .await
    .unwrap();
    let error = session.shell(&Become::None).await.unwrap_err();
    assert!(
        matches!(&error, ShellError::NotStarted { reply } if reply.contains("/no/such/shell")),
        "{error}"
    );
}

#[tokio::test]
async fn thousands_of_items_and_large_scripts() {
    for words in shells() {
        let shell = local(&words).await;
        let mut items: Vec<ShellItem> = (0..1000)
            .map(|id| ShellItem {
                needs: (id > 0).then(|| id - 1).into_iter().collect(),
                ..ShellItem::new(id, ":")
            })
            .collect();
        items.push(ShellItem::new(1000, format!(": {}\necho $?", quote(&"x y'z\n".repeat(200_000)))));
        let (results, error) = shell.run_to_end(&Batch::of(items)).await.unwrap();
        assert!(error.is_none(), "{error:?}");
        assert!(results.iter().all(ShellItemResult::success), "{words:?}");
        assert_eq!(results[1000].output, b"0\n");
        shell.close().await;
    }
}

use super::*;
use crate::fake::{FakeView, read, settle, wrong};
use serde_json::{Value, json};
use std::net::TcpListener;
use std::process::Command;

/// The status and the reason that a real shell returns.
fn look(params: Value) -> (i32, String) {
    let mut params = params;
    params.as_object_mut().unwrap().entry("timeout").or_insert(json!(1));
    let kind = read::<WaitFor>(params);
    let Probe::Run { script, .. } = kind.probe() else { panic!("a script") };
    let out = Command::new("sh").arg("-c").arg(script).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&out.stderr), "");
    (out.status.code().unwrap(), String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

#[test]
fn ports_are_found_by_a_real_shell() {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    assert_eq!(look(json!({"port": port})).0, 0);
    assert_eq!(look(json!({"port": port, "host": "127.0.0.1"})).0, 0);
    assert_eq!(look(json!({"port": port, "gone": true})), (1, "something listens there".to_owned()));
    drop(socket);
    assert_eq!(look(json!({"port": port})), (1, "nothing listens there".to_owned()));
    assert_eq!(look(json!({"port": port, "host": "127.0.0.1"})), (1, "no connection".to_owned()));
    assert_eq!(look(json!({"port": port, "gone": true})).0, 0);
}

#[test]
fn files_and_commands_are_found_by_a_real_shell() {
    assert_eq!(look(json!({"file": "/etc/passwd"})).0, 0);
    assert_eq!(look(json!({"file": "/etc/passwd", "contains": "^root:"})).0, 0);
    assert_eq!(
        look(json!({"file": "/etc/passwd", "contains": "^nobody at all"})),
        (1, "no line matches".to_owned())
    );
    assert_eq!(look(json!({"file": "/no such", "gone": true})).0, 0);
    assert_eq!(look(json!({"command": "test 1 = 1"})).0, 0);
    let (status, why) = look(json!({"command": "echo first; echo no luck; exit 7"}));
    assert_eq!((status, why.as_str()), (1, "it ended with status 7: no luck"));
    assert_eq!(look(json!({"command": "exit 7", "gone": true})).0, 0);
}

#[test]
fn it_waits_until_the_thing_comes() {
    let dir = std::env::temp_dir().join(format!("wait-for-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("made later");
    let path = file.clone();
    let later = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(1200));
        std::fs::write(path, "").unwrap();
    });
    assert_eq!(look(json!({"file": file.to_str().unwrap(), "timeout": 60})).0, 0);
    later.join().unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_plan_defers_it_behind_a_change_and_names_the_reason_of_a_failure() {
    let kind = read::<WaitFor>(json!({"port": 8080, "timeout": 5}));
    settle(&kind, FakeView::new().answer(&kind.probe(), 0, ""));
    assert!(matches!(kind.plan(&FakeView::new().pending()), Err(Stop::Deferred(_))));
    let failed = kind.plan(&FakeView::new().answer(&kind.probe(), 1, "nothing listens there\n"));
    let why = "timed out after 5 s waiting for port 8080 to listen: nothing listens there";
    assert_eq!(failed, Err(Stop::Failed(why.to_owned())));
    let unit = read::<WaitFor>(json!({"unit": "ssh", "gone": true}));
    assert_eq!(unit.what(), "ssh.service to be inactive");
}

#[test]
fn wrong_parameters_are_named() {
    assert_eq!(wrong::<WaitFor>(json!({})), [""]);
    assert_eq!(
        wrong::<WaitFor>(json!({"port": 0, "file": "x", "contains": "a"})),
        ["/file", "/file", "/port"]
    );
    assert_eq!(
        wrong::<WaitFor>(json!({"url": "ftp://x", "host": "-x", "status": 7, "timeout": 0, "every": 0})),
        ["/host", "/host", "/url", "/status", "/timeout", "/every"]
    );
    assert_eq!(wrong::<WaitFor>(json!({"unit": "-a", "contains": "b"})), ["/unit", "/contains"]);
}

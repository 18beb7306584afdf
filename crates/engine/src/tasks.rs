//! Work on many targets at once.

use crate::context::RunContext;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Runs futures side by side on this task and keeps their order: for what borrows from its caller and does nothing but wait.
pub(crate) async fn side_by_side<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    futures::future::join_all(futures).await
}

/// Runs futures as tasks of the runtime, on all its threads, and keeps their order. They end when this future is dropped; a panic of one
/// is a panic here.
pub(crate) async fn in_parallel<F>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let mut tasks = JoinSet::new();
    for (place, future) in futures.into_iter().enumerate() {
        tasks.spawn(async move { (place, future.await) });
    }
    let mut outputs = Vec::with_capacity(tasks.len());
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Ok(output) => outputs.push(output),
            Err(error) => {
                if let Ok(panic) = error.try_into_panic() {
                    std::panic::resume_unwind(panic);
                }
            }
        }
    }
    outputs.sort_by_key(|(place, _)| *place);
    outputs.into_iter().map(|(_, output)| output).collect()
}

/// The same work on each of these targets, as tasks of the runtime.
pub(crate) async fn on_each<F, W>(
    context: &Arc<RunContext>,
    targets: &[String],
    work: impl Fn(Arc<RunContext>, String) -> F,
) -> Vec<W>
where
    F: Future<Output = W> + Send + 'static,
    W: Send + 'static,
{
    in_parallel(targets.iter().map(|target| work(Arc::clone(context), target.clone()))).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[tokio::test(flavor = "multi_thread", worker_threads = 3)]
    async fn tasks_use_several_threads_and_keep_their_order() {
        // Each blocks its thread until the other one has come.
        let both = Arc::new(Barrier::new(2));
        let wait = |name: &'static str| {
            let both = Arc::clone(&both);
            async move {
                both.wait();
                name
            }
        };
        assert_eq!(in_parallel([wait("a"), wait("b")]).await, ["a", "b"]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_panic_of_a_task_is_one_of_its_caller() {
        let caller = tokio::spawn(in_parallel([async { panic!("in the task") }]));
        let panic = caller.await.unwrap_err().into_panic();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"in the task"));
    }
}

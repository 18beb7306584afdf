//! `helm_repository`

use crate::chart_source::{check_login, check_repository, source_stop};
use converge_resource::{
    ApiProbe, Chart, ChartLogin, Claim, ParamError, Place, ReleaseSpec, Resource, Stop, View, WantedStates,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// A check that a repository of helm charts answers, and holds a chart at a version.
///
/// It keeps nothing: a `helm_release` names its repository itself. Put it in `check`, so that a mistyped address or a version that is gone is
/// found before anything is changed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HelmRepository {
    /// Its address: `https://helm.ngc.nvidia.com/nvidia`.
    url: String,
    /// The chart that it must hold.
    chart: String,
    /// The version of the chart.
    version: String,
    /// The login to a private repository, as `helm_release` has it.
    login: Option<ChartLogin>,
}

impl HelmRepository {
    fn probe(&self) -> Result<ApiProbe, Stop> {
        let spec = ReleaseSpec {
            name: "converge-check".to_owned(),
            namespace: "default".to_owned(),
            chart: Chart::Repository { url: self.url.clone(), name: self.chart.clone() },
            login: self.login.clone(),
            plain_http: false,
            version: Some(self.version.clone()),
            values: json!({}),
            create_namespace: false,
            wait_seconds: None,
            seconds: None,
            keep: Vec::new(),
            drawn: Vec::new(),
            unset: Vec::new(),
        };
        serde_json::to_string(&spec).map(ApiProbe::Render).map_err(|e| Stop::Failed(e.to_string()))
    }
}

impl Resource for HelmRepository {
    const KIND: &'static str = "helm_repository";
    const READ_ONLY: bool = true;
    const PLACES: &'static [Place] = &[Place::Cluster];
    const EXAMPLE: &'static str = "\
- name: the chart can be had
  helm_repository: {url: \"https://helm.ngc.nvidia.com/nvidia\", chart: gpu-operator, version: v25.10.0}
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        check_repository("/url", &self.url, &mut errors);
        check_login(self.login.as_ref(), &mut errors);
        for (pointer, text) in [("/chart", &self.chart), ("/version", &self.version)] {
            if text.trim().is_empty() || text.contains(['/', ' ']) {
                errors.push(ParamError::new(
                    pointer,
                    format!("`{text}` is not a valid name"),
                    "write it as `gpu-operator` and `v25.10.0`",
                ));
            }
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        Vec::new()
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let answer = view.api(&self.probe()?)?;
        if let Some(stop) = source_stop(&answer, "/url") {
            return Err(stop);
        }
        match answer.get("invalid") {
            None => Ok(WantedStates::default()),
            Some(why) => {
                let why = why.as_str().map_or_else(|| why.to_string(), str::to_owned);
                let Self { url, chart, version, .. } = self;
                Err(Stop::Failed(format!(
                    "{url} does not give the chart {chart} at version {version}: {why}"
                )))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use serde_json::Value;

    fn kind() -> HelmRepository {
        read(json!({"url": "https://c.example.org", "chart": "x", "version": "1.0.0"}))
    }

    #[test]
    fn the_chart_is_there_or_not() {
        settle(&kind(), FakeView::new().says(kind().probe().unwrap(), json!({"manifests": []})));
        let gone = FakeView::new().says(kind().probe().unwrap(), json!({"invalid": "chart not found"}));
        let reply = kind().plan(&gone);
        assert!(
            matches!(reply, Err(Stop::Failed(why)) if why.contains("x at version 1.0.0: chart not found"))
        );
    }

    #[test]
    fn wrong_parameters_are_named() {
        let bad = json!({"url": "nvidia", "chart": "a/b", "version": ""});
        assert_eq!(wrong::<HelmRepository>(bad), ["/url", "/chart", "/version"]);
        assert_eq!(wrong::<HelmRepository>(json!({"url": "https://x"})), ["parse "]);
    }

    #[test]
    fn it_is_a_question_about_one_chart() {
        let ApiProbe::Render(text) = kind().probe().unwrap() else { panic!() };
        let spec: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(spec["chart"]["repository"]["name"], "x");
    }
}

use crate::report::StepResult;
pub(crate) fn run() -> StepResult {
    Err("x".into())
}
pub(crate) fn prepare() -> Result<(), String> {
    Ok(())
}

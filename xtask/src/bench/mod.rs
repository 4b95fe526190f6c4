pub(crate) fn main(_args: &[String]) -> Result<bool, String> {
    Err("x".into())
}

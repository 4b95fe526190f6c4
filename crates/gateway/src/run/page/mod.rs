//! The page of `[page]`: one static page and its events.
//!
//! The files are a part of the program, and ask no other host. Each second the page gets the status
//! as an event, if somebody looks. It is made once for all viewers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::run::http::request::Request;
use crate::run::http::{Answer, Body, Site};
use crate::run::status::Status;

/// The least time between two looks at the gateway, a little below the interval of events.
const FRESH: Duration = Duration::from_millis(900);

/// The files of the page: path, media type, content.
const FILES: [(&str, &str, &str); 6] = [
    ("/", "text/html; charset=utf-8", include_str!("site/index.html")),
    ("/page.css", "text/css; charset=utf-8", include_str!("site/page.css")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("site/page.js")),
    ("/draw.js", "text/javascript; charset=utf-8", include_str!("site/draw.js")),
    ("/words.js", "text/javascript; charset=utf-8", include_str!("site/words.js")),
    ("/icon.svg", "image/svg+xml", include_str!("site/icon.svg")),
];

/// A way to the present status. `None`: the gateway does not answer.
type Source = Box<dyn Fn() -> Option<Status> + Send>;

/// The page of a gateway.
pub struct Page {
    source: Source,
    shown: Option<(Instant, Arc<[u8]>)>,
}

/// An event of the page.
#[derive(Serialize)]
struct Look<'a> {
    /// Null: the gateway does not answer.
    status: Option<&'a Status>,
}

impl Page {
    /// With the status that `source` gives, which is asked once a second at most.
    #[must_use]
    pub fn new(source: impl Fn() -> Option<Status> + Send + 'static) -> Self {
        Self { source: Box::new(source), shown: None }
    }
}

impl Site for Page {
    fn answer(&mut self, request: &Request<'_>) -> Answer {
        if request.path == "/events" {
            return Answer::Stream;
        }
        match FILES.iter().find(|(path, ..)| *path == request.path) {
            Some((_, kind, text)) => Answer::Document(kind, Body::Static(text.as_bytes())),
            None => Answer::Missing("see /\n"),
        }
    }

    fn event(&mut self) -> Arc<[u8]> {
        match &self.shown {
            Some((at, event)) if at.elapsed() < FRESH => Arc::clone(event),
            _ => {
                let status = (self.source)();
                // Names and numbers only, which JSON can write; without line ends.
                let look = serde_json::to_string(&Look { status: status.as_ref() }).unwrap_or_default();
                let event: Arc<[u8]> = format!("data: {look}\n\n").into_bytes().into();
                self.shown = Some((Instant::now(), Arc::clone(&event)));
                event
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::run::trouble::Trouble;

    /// Octets of the whole page.
    const LIMIT: usize = 300_000;

    #[test]
    fn page_is_small_and_asks_no_other_host() {
        assert!(FILES.iter().map(|(.., text)| text.len()).sum::<usize>() < LIMIT);
        for (path, _, text) in FILES {
            // A name of SVG's is no address.
            let text = text.replace("http://www.w3.org/2000/svg", "");
            for other in ["http:", "https:", "//cdn", "innerHTML", "eval(", "style=\""] {
                assert!(!text.contains(other), "{path} has {other}");
            }
        }
        let (.., index) = FILES[0];
        for (path, ..) in &FILES[1..] {
            let named = FILES.iter().any(|(_, _, text)| {
                text.contains(&format!("\"{path}\"")) || text.contains(&format!("\".{path}\""))
            });
            assert!(named, "{path}");
        }
        assert!(index.contains("lang=\"en\""));
    }

    /// German has a sentence for each condition and its remedy.
    #[test]
    fn german_has_every_condition() {
        let words = FILES.iter().find(|(path, ..)| *path == "/words.js").unwrap().2;
        for trouble in Trouble::ALL {
            let name = trouble.words().name;
            assert!(words.contains(&format!("\n  \"{name}\": [")), "{name}");
        }
        assert_eq!(words.matches("\n  \"").count(), Trouble::ALL.len());
    }

    #[test]
    fn event_is_made_once_for_all() {
        let asked = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&asked);
        let mut page = Page::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
            Some(Status { config: "a\nb".into(), ..Status::default() })
        });
        let (first, second) = (page.event(), page.event());
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        let text = String::from_utf8_lossy(&first);
        assert!(text.starts_with("data: {\"status\":{") && text.ends_with("}}\n\n"), "{text}");
        assert_eq!(text.matches('\n').count(), 2, "one event: {text}");
        let silent = Page::new(|| None).event();
        assert_eq!(&*silent, b"data: {\"status\":null}\n\n");
    }

    #[test]
    fn files_and_stream_are_found() {
        let mut page = Page::new(|| None);
        let mut ask = |path| page.answer(&Request { path, ..Request::default() });
        for (path, kind, _) in FILES {
            assert!(matches!(ask(path), Answer::Document(found, _) if found == kind), "{path}");
        }
        assert!(matches!(ask("/events"), Answer::Stream));
        assert!(matches!(ask("/../page.css"), Answer::Missing(_)));
    }
}

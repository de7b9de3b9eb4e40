package access

import (
	"net/http"
	"net/url"
	"strings"
)

// A Rule says what requests with a method and a path need.
type Rule struct {
	Method string // GET is HEAD as well; "*" is any
	Path   string // {x} is one segment, {x...} any further ones; {queue} names the queue
	Right  Right  // 0: nothing
	Of     Scope
}

// A Scope is for which queues a right must be had.
type Scope uint8

const (
	Named Scope = iota // the queue that the path names
	Some               // any queue
	Every              // all queues
	Body               // any queue, and any right: what it takes depends on the body, see [Gate.Require]
	Own                // the queue that the path names; who may submit to it is let in as well, and shown only what is theirs
)

// Rules are all there are; the first that fits holds. What fits none needs the
// right of an administrator for all queues, whether it exists or not.
var Rules = []Rule{
	{"GET", "/livez", 0, Some},
	{"GET", "/readyz", 0, Some},
	{"GET", "/robots.txt", 0, Some},
	{"GET", "/favicon.ico", 0, Some},
	{"GET", "/help", 0, Some},
	{"GET", "/help/{method}", 0, Some},

	{"GET", "/", Read, Some},
	{"GET", "/state", Read, Some},
	{"GET", "/schema/{name...}", Read, Some},
	{"GET", "/state/{queue}", Read, Named},
	{"GET", "/state/{queue}/{job}", Read, Named},
	{"GET", "/content/{queue}", Read, Named},
	{"GET", "/content/{queue}/{job}", Read, Named},
	{"GET", "/queues/{queue}/{file...}", Read, Named},
	{"GET", "/result/{queue}/{rest...}", Read, Named},
	{"GET", "/batch/{queue}/{rest...}", Read, Named},
	{"GET", "/events", Read, Every},
	{"GET", "/events/{queue}", Read, Named},
	{"GET", "/metrics", Read, Every},

	{"POST", "/publish", Admin, Every},
	{"GET", "/publish/status", Admin, Every},

	{"GET", "/.well-known/resourcesync", Read, Some},
	{"GET", "/.well-known/resourcesync/{part}", Read, Some},
	{"GET", "/.well-known/resourcesync/{queue}/{rest...}", Read, Named},

	{"POST", "/content/{queue}", Submit, Named},
	{"POST", "/consume/{queue}", Consume, Named},
	{"POST", "/requeue/{queue}", Consume, Named},
	{"POST", "/requeue/{queue}/{job}", Consume, Named},
	{"POST", "/lease/{queue}/{job}", Consume, Named},
	{"POST", "/outcome/{queue}/{job}", Consume, Named},
	{"PUT", "/result/{queue}/{job}/{name}", Consume, Named},

	{"DELETE", "/content/{queue}/{job}", Delete, Named},
	{"POST", "/delete/{queue}/{job}", Delete, Named},
	{"POST", "/hold/{queue}/{job}", Delete, Named},
	{"POST", "/release/{queue}/{job}", Delete, Named},
	{"POST", "/abort/{queue}/{job}", Delete, Named},
	{"POST", "/delete/{queue}", Delete, Named},
	{"POST", "/hold/{queue}", Delete, Named},
	{"POST", "/release/{queue}", Delete, Named},

	{"PUT", "/state/{queue}", Admin, Named},
	{"POST", "/state/{queue}", Admin, Named},
	{"DELETE", "/state/{queue}", Admin, Named},
	{"POST", "/state", Admin, Every},
	{"POST", "/cull/{queue}", Admin, Named},
	{"POST", "/cull", Admin, Every},

	// A job of UWS is made, set up, started, followed and destroyed by one client;
	// which job is whose is for its handler. Every path is named: one that is read
	// and one that makes a job differ in a segment.
	{"GET", "/uws/{queue}/sync", Submit, Named},
	{"POST", "/uws/{queue}/sync", Submit, Named},
	{"GET", "/uws/{queue}/sync/{job}", Read, Own},
	{"GET", "/uws/{queue}/capabilities", Read, Own},
	{"GET", "/uws/{queue}/availability", Read, Own},
	{"GET", "/uws/{queue}/async", Read, Own},
	{"GET", "/uws/{queue}/async/{rest...}", Read, Own},
	{"DELETE", "/uws/{queue}/async/{job}", Submit, Named},
	{"POST", "/uws/{queue}/async", Submit, Named},
	{"POST", "/uws/{queue}/async/{job}", Submit, Named},
	{"POST", "/uws/{queue}/async/{job}/{part}", Submit, Named},
	{"PUT", "/uws/{queue}/async/{job}/parameters/{name}", Submit, Named},

	// Which right for which queue, the handler finds out.
	{"GET", "/rdm/incoming", Read, Some},
	{"POST", "/rdm/incoming", Read, Body},

	// The topic, and so the queue, is in the body.
	{"GET", "/hub", Admin, Every},
	{"POST", "/hub", Read, Body},
}

// otherwise holds for what fits no rule.
var otherwise = Rule{"*", "", Admin, Every}

// bySegment are the rules by the first segment of their path.
var bySegment = func() map[string][]parsedRule {
	m := map[string][]parsedRule{}
	for _, r := range Rules {
		segments := strings.Split(r.Path[1:], "/")
		m[segments[0]] = append(m[segments[0]], parsedRule{r, segments})
	}
	return m
}()

type parsedRule struct {
	Rule
	segments []string
}

// RuleFor returns the rule for a request, and the name of the queue in its
// path if it has one. The path is taken apart as the handlers do it: segments
// first, each unescaped then.
func RuleFor(method string, u *url.URL) (rule Rule, queue string) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	path := u.EscapedPath()
	if !strings.HasPrefix(path, "/") {
		return otherwise, ""
	}
	segments := strings.Split(path[1:], "/")
	for i, s := range segments {
		var err error
		if segments[i], err = url.PathUnescape(s); err != nil {
			return otherwise, ""
		}
	}
	for _, r := range bySegment[segments[0]] {
		if r.Method != method && r.Method != "*" {
			continue
		}
		if queue, ok := match(r.segments, segments); ok {
			return r.Rule, queue
		}
	}
	return otherwise, ""
}

func match(pattern, path []string) (queue string, ok bool) {
	for i, p := range pattern {
		if strings.HasSuffix(p, "...}") {
			return queue, len(path) > i
		}
		switch {
		case i >= len(path):
			return "", false
		case p == "{queue}":
			queue = path[i]
			fallthrough
		case strings.HasPrefix(p, "{"):
			if path[i] == "" {
				return "", false
			}
		case p != path[i]:
			return "", false
		}
	}
	return queue, len(path) == len(pattern)
}

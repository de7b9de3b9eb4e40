// Package websub is both ends of WebSub (W3C Recommendation of 23 January
// 2018). A [Hub] distributes the topics of one Source, a [Subscriber] receives
// the topics of any.
//
// A subscriber asks for a topic with a POST to the hub. The hub confirms with a
// GET of the callback (5.3) and from then on POSTs new content:
//
//	POST /callback HTTP/1.1
//	Content-Type: application/xml
//	Link: <https://example.org/hub>; rel="hub", <https://example.org/topic>; rel="self"
//	X-Hub-Signature: sha256=4bf5…        with a secret
//
// The hub keeps no content and no queue. For each subscription it knows the
// position of the last delivery and asks the [Source] for the content after it,
// so a backlog costs nothing and is one notification. [push] makes the
// deliveries; its promises hold here.
//
// Before a delivery the hub asks whether the subscriber still has the right;
// without it the subscription is denied (5.2) and ends. 410 ends a subscription
// too (7), and so do the end of its lease and seven days of failures. The hub
// can tell hubs of others of all topics, see [External].
//
// The subscriptions of a Hub stand in the file "subscriptions", of a Subscriber
// in "subscribed", each a [push.Book] in a directory for its owner alone, because
// both have secrets. A request is on stable storage before the answer 202, a new
// subscription before its first delivery: on a full disk new ones wait. After a
// crash requests without verification are verified.
//
// Left out: content from publishers other than the Source (hub.mode=publish),
// and discovery by links in feeds and HTML pages.
package websub

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"unicode/utf8"

	"cutie/publisher/push"
	"cutie/queuefs/durable"
	"cutie/wellknown"
)

// A Source has the content for a [Hub]. Its methods are safe for concurrent
// use. Positions are its own words of a few bytes, without spaces; the hub
// compares them for equality only.
type Source interface {
	// Version returns another number whenever Latest may return another
	// position of any topic. The hub asks for it a few times a second, and for
	// Latest only when it differs.
	Version() uint64

	// Topics returns the URLs of all topics. The caller does not change them.
	Topics() []string

	// Latest returns the position after all content of a topic. It differs
	// whenever there is more. For an unknown topic the error is an [ErrNoTopic].
	Latest(topic string) (position string, err error)

	// Content returns the content of a topic after a position from Latest or
	// Content, of an earlier process too, or from the beginning after "".
	Content(topic, after string) (Content, error)
}

// Content is one notification.
type Content struct {
	Type string // media type
	Body []byte // nil if there is nothing to say; not to be changed
	Upto string // the position after it
	More bool   // the topic has more already
}

// ErrNoTopic is the error of a topic unknown to the Source.
var ErrNoTopic = errors.New("no such topic")

// Link relations (4).
const (
	RelHub  = "hub"
	RelSelf = "self"
)

// Links returns the Link header field of a topic and of its notifications: its
// hubs and its URL.
func Links(topic string, hubs ...string) string {
	var field string
	for _, hub := range hubs {
		field += wellknown.Link(hub, RelHub) + ", "
	}
	return field + wellknown.Link(topic, RelSelf)
}

// Values of hub.mode.
const (
	subscribe   = "subscribe"
	unsubscribe = "unsubscribe"
	denied      = "denied"
	publish     = "publish"
)

const (
	formType       = "application/x-www-form-urlencoded"
	signatureField = "X-Hub-Signature"
	agent          = "Cutie WebSub"
	maxURL         = 2048 // bytes of a topic or callback
	maxSecret      = 199  // bytes of hub.secret (5.1)
)

// parseURL reads an absolute URL for requests.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case len(text) > maxURL:
		return nil, errors.New("longer than 2048 octets")
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || !utf8.ValidString(text):
		return nil, errors.New("not an absolute http or https URL")
	case u.User != nil:
		return nil, errors.New("has a user or a password")
	case u.Fragment != "":
		return nil, errors.New("has a fragment")
	}
	return u, nil
}

// redact returns the public part of a callback. The whole URL is a right to use
// it.
func redact(callback string) string {
	u, err := url.Parse(callback)
	if err != nil {
		return "(not a URL)"
	}
	return u.Scheme + "://" + u.Host
}

// stateFile prepares the directory and returns the state file in it.
func stateFile(dir *durable.Dir, name string) (durable.Sealed, error) {
	return sealedIn(dir, name), errors.Join(os.Chmod(dir.Path(), 0o700), dir.Sweep(nil))
}

// subscriptionsName is the file of the subscriptions of the hub.
const subscriptionsName = "subscriptions"

func sealedIn(dir *durable.Dir, name string) durable.Sealed {
	return durable.Sealed{Dir: dir, Name: name, Kind: name, Max: 256 << 20}
}

// A refusedError is the refusal of the Doer to make a request.
type refusedError struct {
	public string // for strangers
	cause  error  // for the operator
}

func (e *refusedError) Error() string { return e.public }

// A discreet Doer keeps from strangers why a request is refused.
type discreet struct{ push.Doer }

func (d discreet) Do(req *http.Request) (*http.Response, error) {
	resp, err := d.Doer.Do(req)
	var public interface{ Public() string }
	if errors.As(err, &public) {
		err = &refusedError{public.Public(), push.Explain(err, 0)}
	}
	return resp, err
}

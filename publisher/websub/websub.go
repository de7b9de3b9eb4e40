// Package websub pushes what changes to those who subscribed: WebSub (W3C
// Recommendation of 23 January 2018), both ends. [Hub] distributes the topics
// of one Source, [Subscriber] receives those of any.
//
// # The hub
//
// A subscriber asks for a topic with a POST to the hub; the hub asks it back
// with a GET of its callback (5.3) and from then on POSTs it what is new:
//
//	POST /callback HTTP/1.1
//	Content-Type: application/xml
//	Link: <https://example.org/hub>; rel="hub", <https://example.org/topic>; rel="self"
//	X-Hub-Signature: sha256=4bf5…        if there is a secret
//
// The hub keeps no content and no queue: of each subscription it knows the
// position up to which the [Source] has been delivered, and asks the Source
// for what follows. So a backlog costs nothing, and what came while a
// delivery was in progress, or failed, is one notification when the time comes.
// A subscription has one delivery in progress at a time, in the order of
// positions. What was delivered is delivered again if the answer was lost, or
// if the hub was killed within a second after it, or while a full disk kept it
// from being written down; nothing is left out unless the Source no longer has it.
//
// Before a delivery it is asked whether who subscribed still may have it; if not
// the subscriber is told that the subscription is denied (5.2). 2xx is the
// receipt, 410 ends the subscription (7). After anything else, redirects
// included, the hub tries again, at first after a second, at last every hour or
// when Retry-After says, until the lease ends or a subscriber has failed for
// seven days. Those that are new, failing or slow share half of the requests
// that may be in progress, and each host has a few at most, so that they hold up
// nobody else.
//
// Hubs of others can be told of all topics as well, see [External].
//
// Subscriptions are in the file "subscriptions" of a directory of the hub's
// own, one a line in JSON. A request is there before it is answered 202, and a
// subscription before anything comes of it: on a full disk new ones wait. After
// a crash, positions are those of a second ago, or of when the disk was full;
// nothing else is missing.
//
//	subscriptions   done on opening
//	absent          there are none
//	complete        taken up; what was asked and not verified is verified
//	damaged         set aside as subscriptions.bad, reported; there are none
//
// The file has secrets: the directory is for its owner alone.
//
// # Left out
//
// Content from publishers other than the Source (hub.mode=publish); differences
// within a document, which are the matter of the Source; links in feeds and
// HTML pages at discovery: headers and ResourceSync documents are looked at.
package websub

import (
	"errors"
	"net/http"
	"net/url"
	"unicode/utf8"

	"cutie/wellknown"
)

// A Doer makes requests to URLs that strangers name, and refuses those it
// should not make. It should not follow redirects, which both ends of the
// protocol take for failures. It is safe for concurrent use.
type Doer interface {
	Do(*http.Request) (*http.Response, error)
}

// A Source has what a [Hub] distributes. Its methods are safe for concurrent
// use. Positions are its own words, of a few octets without spaces; the hub
// compares them for equality alone.
type Source interface {
	// Version returns another number whenever Latest may return another
	// position of some topic. It is asked a few times a second, and Latest only
	// when it differs.
	Version() uint64

	// Topics returns the URLs of all topics, which are not to be changed.
	Topics() []string

	// Latest returns the position behind everything that a topic has by now:
	// another one whenever it has more. If there is no such topic the error is
	// an [ErrNoTopic].
	Latest(topic string) (position string, err error)

	// Content returns what a topic has after a position that Latest or
	// Content returned, also in the life of an earlier process, or from the
	// beginning after "".
	Content(topic, after string) (Content, error)
}

// Content is what one notification says.
type Content struct {
	Type string // media type
	Body []byte // nil if there is nothing to say; not to be changed
	Upto string // the position behind it
	More bool   // the topic has more already
}

// ErrNoTopic says that a Source does not have a topic, or has it no more.
var ErrNoTopic = errors.New("no such topic")

// Link relations (4).
const (
	RelHub  = "hub"
	RelSelf = "self"
)

// Links returns the Link header field of a topic and of its notifications:
// where its hubs are and which topic it is.
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

const formType = "application/x-www-form-urlencoded"

const agent = "Cutie WebSub"

// maxURL is the longest topic or callback, in octets.
const maxURL = 2048

// maxSecret is the longest hub.secret, in octets (5.1).
const maxSecret = 199

// parseURL reads an absolute URL that requests may be made to.
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

// redact returns what may be shown of a callback: to know the rest is to be
// allowed to use it.
func redact(callback string) string {
	u, err := url.Parse(callback)
	if err != nil {
		return "(not a URL)"
	}
	return u.Scheme + "://" + u.Host
}

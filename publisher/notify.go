package publisher

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"cutie/publisher/hub"
	"cutie/publisher/names"
	"cutie/publisher/set"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/web"
	"cutie/sitemap"
	"cutie/wellknown"
)

// A Notifier is the Source of notifications about a Publisher (ResourceSync Change
// Notification and Framework Notification 1.0.1). A [hub.Hub] delivers them. Its
// methods are safe for concurrent use.
//
// Each set has two topics, named in its Capability List:
//
//	…/Q/SET/change-notification.xml      changes of resources
//	…/Q/SET/framework-notification.xml   changes of documents
//
// A Change Notification has the entries of the Change Lists after the last
// delivered one, as they stand there, up to NotifierOptions.MaxOctets; from and until
// enclose them. Its from is the until of the one before. If its from is later,
// Change Lists are gone, and no notification has their changes: the Destination
// goes on from the Change List, or begins with a Baseline. By cut:seq a
// Destination knows entries delivered twice. A GET of the topic returns the
// newest changes.
//
// A Framework Notification has an entry for each document changed since the last
// delivery: the Source Description and, of the set, the
// Capability List, the Change List Index, the Dumps and the archives. The open
// Change List and the Resource List are true at any instant; Change
// Notifications say that they change.
type Notifier struct {
	NotifierOptions
	pub    *Publisher
	router *web.Router

	mu     sync.Mutex
	source string    // version of the Source Description; "" if not known
	readAt time.Time // when it was read
	queues []Queue   // as of the last Topics
	topics []string
	known  map[string]seen // by URL
}

// A seen is the position of a topic when it was last asked for.
type seen struct {
	topic
	position string
	event    job.Seq // last event then
	second   int64   // and time
}

// NotifierOptions are the settings of a [Notifier]. Zero values mean the defaults.
type NotifierOptions struct {
	Hubs      []string           // URLs to be named; one at least
	Change    sitemap.Capability // of Change Notifications; "": sitemap.ChangeNotification
	Framework sitemap.Capability // of Framework Notifications; "": sitemap.FrameworkNotification
	MaxOctets int                // of the entries of a notification, 64 KiB to 16 MiB; 0: 1 MiB
}

// NewNotifier returns the Notifier of a Publisher. Capability Lists name its topics from
// then on.
func NewNotifier(p *Publisher, o NotifierOptions) (*Notifier, error) {
	if len(o.Hubs) == 0 {
		return nil, errors.New("notifications: no hub")
	}
	for _, text := range o.Hubs {
		if u, err := url.Parse(text); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("notifications: hub %.80q is not an absolute http or https URL", text)
		}
	}
	o.Change = cmp.Or(o.Change, sitemap.ChangeNotification)
	o.Framework = cmp.Or(o.Framework, sitemap.FrameworkNotification)
	for _, c := range []sitemap.Capability{o.Change, o.Framework} {
		if len(c) > 64 || strings.Trim(string(c), "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return nil, fmt.Errorf("notifications: capability %.80q is not up to 64 small letters, digits and hyphens", c)
		}
	}
	if o.Change == o.Framework {
		return nil, fmt.Errorf("notifications: capability %q is that of both kinds", o.Change)
	}
	if o.MaxOctets == 0 {
		o.MaxOctets = 1 << 20
	}
	if o.MaxOctets < 64<<10 || o.MaxOctets > 16<<20 {
		return nil, fmt.Errorf("notifications: %d octets are not between %d and %d", o.MaxOctets, 64<<10, 16<<20)
	}
	n := &Notifier{NotifierOptions: o, pub: p, known: map[string]seen{}}
	n.router = web.NewRouter(web.Plain, n.Routes()...)
	p.Announce(Topics{Tag: names.Salt(o.Hubs, o.Change, o.Framework), Entries: n.Entries, Newest: n.newestAt})
	return n, nil
}

// Names of the topics of a set.
const (
	changeTopic    = "change-notification.xml"
	frameworkTopic = "framework-notification.xml"
)

// A topic is a set with one kind of notifications. Its queue may be at rest.
type topic struct {
	set.Subject
	kind      names.Set
	url       string
	framework bool
}

// topic accepts only URLs of ours. The error may be a [hub.ErrNoTopic].
func (n *Notifier) topic(ref string) (topic, error) {
	none := fmt.Errorf("%.200q: %w", ref, hub.ErrNoTopic)
	path, ok := strings.CutPrefix(ref, n.pub.src.Base.Description()+"/")
	w := strings.Split(path, "/")
	if !ok || len(w) != 3 || w[2] != changeTopic && w[2] != frameworkTopic {
		return topic{}, none
	}
	id, err := url.PathUnescape(w[0])
	kind, ok := names.ParseSet(w[1])
	if err != nil || !ok || names.Escape(id) != w[0] {
		return topic{}, none
	}
	q, err := n.pub.svc.queue(id)
	if errors.Is(err, ledger.ErrNoQueue) || errors.Is(err, job.ErrBadName) || err == nil && q.ID() != id {
		err = none
	}
	if err != nil {
		return topic{}, err
	}
	return topic{n.pub.src.Subject(q), kind, ref, w[2] == frameworkTopic}, nil
}

// use opens the queue of a topic for a function.
func (n *Notifier) use(t *topic, do func(documents) error) error {
	f, err := n.pub.use(t.Queue)
	if err != nil {
		return err
	}
	defer f.release()
	return do(documents{f.sets[t.kind], n.pub})
}

// current reports whether the queue of a topic is still the one of its name.
func (n *Notifier) current(t *topic) bool {
	q, err := n.pub.svc.queue(t.Queue.ID())
	return err == nil && q == t.Queue
}

// Queue returns the identifier of the queue that a topic is of, to decide who
// may subscribe. The error may be a [hub.ErrNoTopic].
func (n *Notifier) Queue(ref string) (id string, err error) {
	t, err := n.topic(ref)
	if err != nil {
		return "", err
	}
	return t.Queue.ID(), nil
}

// Topics implements [hub.Source]: it returns the URLs of all topics.
func (n *Notifier) Topics() []string {
	queues := n.pub.Queues()
	n.mu.Lock()
	defer n.mu.Unlock()
	if slices.Equal(queues, n.queues) {
		return n.topics
	}
	n.queues, n.topics = queues, nil
	clear(n.known) // some may be gone
	for _, q := range queues {
		for _, docs := range n.pub.src.Base.Queue(q.ID()).Docs {
			n.topics = append(n.topics, docs+changeTopic, docs+frameworkTopic)
		}
	}
	return n.topics
}

// Entries returns the entries for topics in the Capability List of a set; queue
// is the cleaned identifier of the queue.
func (n *Notifier) Entries(queue string, s names.Set) []sitemap.Entry {
	docs := n.pub.src.Base.Queue(queue).Docs[s]
	return []sitemap.Entry{
		{Loc: docs + changeTopic, Capability: n.Change, Length: -1, Links: n.hubLinks()},
		{Loc: docs + frameworkTopic, Capability: n.Framework, Length: -1, Links: n.hubLinks()},
	}
}

func (n *Notifier) hubLinks() []sitemap.Link {
	var links []sitemap.Link
	for _, url := range n.Hubs {
		links = append(links, sitemap.Link{Rel: hub.RelHub, Href: url})
	}
	return links
}

// Content implements [hub.Source].
func (n *Notifier) Content(ref, after string) (hub.Content, error) {
	t, err := n.topic(ref)
	if err != nil {
		return hub.Content{}, err
	}
	if t.framework {
		return n.documents(t, after, n.pub.Now().UTC())
	}
	return n.changes(t, after)
}

// Version implements [hub.Source]. A change without an event, by time or by
// Publish, shows in the next second.
func (n *Notifier) Version() uint64 {
	const prime = 1099511628211
	some, version := n.pub.svc.changed(math.MaxUint64)
	for _, q := range some { // of a service that does not count
		version = version*prime + uint64(q.Seq())
	}
	return uint64(n.pub.Now().Unix())*prime + version
}

// Latest implements [hub.Source].
func (n *Notifier) Latest(ref string) (string, error) {
	n.mu.Lock()
	s, ok := n.known[ref]
	n.mu.Unlock()
	if !ok || !n.current(&s.topic) {
		t, err := n.topic(ref)
		if err != nil {
			return "", err
		}
		s = seen{topic: t}
	}
	st := s.Queue.State()
	at, second := names.Position{Seq: st.Seq, At: s.OrCreated(st.LastEvent)}, n.pub.Now().Unix()
	if s.position != "" && s.event == at.Seq && (!s.framework || s.second == second) {
		return s.position, nil
	}
	s.event, s.second = at.Seq, second
	if !s.framework {
		s.position = at.String()
	} else if v, err := n.versions(&s.topic); err != nil {
		return "", err
	} else {
		s.position = v.String()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known[ref] = s
	return s.position, nil
}

// changes returns the Change Notification after a position.
func (n *Notifier) changes(t topic, after string) (hub.Content, error) {
	var at names.Position
	if after != "" {
		var err error
		if at, err = names.ParsePosition(after); err != nil {
			return hub.Content{}, err
		}
	}
	var x excerpt
	err := n.use(&t, func(s documents) (err error) {
		x, err = s.excerpt(at, n.MaxOctets)
		return err
	})
	c := hub.Content{Type: typeXML, Upto: x.Upto.String(), More: x.More}
	c.Gap = at.At.Unix() > 0 && (x.From.After(at.At) || len(x.Entries) == 0 && x.Upto.At.After(at.At))
	if err == nil && len(x.Entries) > 0 {
		c.Body = n.body(t, n.Change, x.From, x.Upto.At, x.Entries)
	}
	return c, err
}

// body returns a notification.
func (n *Notifier) body(t topic, c sitemap.Capability, from, until time.Time, entries []byte) []byte {
	links := append([]sitemap.Link{{Rel: sitemap.RelUp, Href: t.Refs.Doc(t.kind, names.CapabilityList.Of())}, {Rel: hub.RelSelf, Href: t.url}}, n.hubLinks()...)
	dst := n.pub.src.Dialect.AppendHead(nil, sitemap.URLSet, sitemap.Head{Capability: c, From: from, Until: until, Links: links})
	return sitemap.AppendFoot(append(dst, entries...), sitemap.URLSet)
}

// Routes returns the routes of the topics, with the links that lead to the hubs
// (WebSub, 4), for GET and HEAD and with strong entity tags, and those of the
// Publisher.
func (n *Notifier) Routes() []web.Route {
	topics := web.Route{Method: http.MethodGet, Path: wellknown.Path + "/{queue}/{set}/{topic:" + changeTopic + "|" + frameworkTopic + "}",
		Need: web.Here(web.Read), Serve: n.serve}
	return append([]web.Route{topics}, n.pub.Routes()...)
}

// ServeHTTP answers by the routes of the Notifier alone, with errors in plain
// text.
func (n *Notifier) ServeHTTP(w http.ResponseWriter, r *http.Request) { n.router.ServeHTTP(w, r) }

func (n *Notifier) serve(w http.ResponseWriter, r *http.Request) error {
	t, err := n.topic(n.pub.src.Base.Description() + strings.TrimPrefix(r.URL.EscapedPath(), wellknown.Path)) // as it was subscribed to
	if errors.Is(err, hub.ErrNoTopic) {
		return web.Errorf(http.StatusNotFound, "not found")
	}
	var body []byte
	if err == nil {
		body, err = n.newest(t)
	}
	if err != nil {
		return n.pub.Refusal(r, err)
	}
	h := w.Header()
	h.Set("Link", hub.Links(t.url, n.Hubs...))
	h.Set("Content-Type", typeXML)
	h.Set("Cache-Control", cacheOpen)
	sum := sha256.Sum256(body)
	h.Set("ETag", fmt.Sprintf(`"n-%x"`, sum[:12]))
	return n.pub.Refusal(r, web.Serve(w, r, time.Time{}, bytes.NewReader(body)))
}

// newestAt is newest of the topic at a URI.
func (n *Notifier) newestAt(uri string) ([]byte, error) {
	t, err := n.topic(uri)
	if err != nil {
		return nil, err
	}
	return n.newest(t)
}

// newest returns the body of a GET of a topic. It stays the same until something
// changes.
func (n *Notifier) newest(t topic) ([]byte, error) {
	if t.framework {
		c, err := n.documents(t, "", time.Time{})
		return c.Body, err
	}
	var x excerpt
	err := n.use(&t, func(s documents) (err error) {
		x, err = s.newest(n.MaxOctets)
		return err
	})
	return n.body(t, n.Change, x.From, x.Upto.At, x.Entries), err
}

var _ hub.Source = (*Notifier)(nil)

// documents returns the Framework Notification of the documents whose version
// differs from before; now may be zero.
func (n *Notifier) documents(t topic, before string, now time.Time) (hub.Content, error) {
	v, err := n.versions(&t)
	if err != nil {
		return hub.Content{}, err
	}
	c := hub.Content{Type: typeXML, Upto: v.String()}
	var entries []byte
	old := strings.Split(before, ".")
	for i, d := range v {
		if d.version != noDocument && (len(old) != len(v) || old[i] != d.version) {
			entries = n.pub.src.Dialect.AppendEntry(entries, sitemap.URLSet, &sitemap.Entry{
				Loc: d.loc, Capability: d.capability, Change: sitemap.Updated, DateTime: now, Length: -1})
		}
	}
	if len(entries) > 0 {
		c.Body = n.body(t, n.Framework, time.Time{}, time.Time{}, entries)
	}
	return c, nil
}

// A version is how a document stands.
type version struct {
	loc        string
	capability sitemap.Capability
	version    string // or noDocument
}

const noDocument = "-"

type versions []version

// String returns the position of a framework topic.
func (v versions) String() string {
	words := make([]string, len(v))
	for i := range v {
		words[i] = v[i].version
	}
	return strings.Join(words, ".")
}

// framework are the documents of a set in Framework Notifications.
var framework = []struct {
	kind       names.Kind
	capability sitemap.Capability
}{
	{names.CapabilityList, sitemap.CapabilityList},
	{names.ChangeIndex, sitemap.ChangeList},
	{names.ChangeDump, sitemap.ChangeDump},
	{names.ResourceDump, sitemap.ResourceDump},
	{names.ResourceListArchive, sitemap.ResourceListArchive},
	{names.ChangeListArchive, sitemap.ChangeListArchive},
	{names.ResourceDumpArchive, sitemap.ResourceDumpArchive},
	{names.ChangeDumpArchive, sitemap.ChangeDumpArchive},
}

// versions returns how the Source Description and the documents of a set stand.
func (n *Notifier) versions(t *topic) (versions, error) {
	all := versions{{n.pub.src.Base.Description(), sitemap.Description, n.description()}}
	err := n.use(t, func(s documents) error {
		var errs []error
		for _, d := range framework {
			v := noDocument
			r, err := s.find(d.kind.Of())
			if r != nil && err == nil {
				r.Born = t.Born
				v = versionOf(r.State())
			}
			errs = append(errs, err)
			all = append(all, version{s.URI(d.kind), d.capability, v})
		}
		return errors.Join(errs...)
	})
	return all, err
}

// versionOf returns a short word that differs with the state of a document.
func versionOf(state string) string {
	sum := sha256.Sum256([]byte(state))
	return hex.EncodeToString(sum[:6])
}

// description returns the version of the Source Description. It takes as long
// as there are queues, and is one for all topics, so it is kept for a moment.
func (n *Notifier) description() string {
	const kept = 200 * time.Millisecond
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.pub.Now()
	if age := now.Sub(n.readAt); n.source != "" && age >= 0 && age < kept {
		return n.source
	}
	n.source, n.readAt = versionOf(n.pub.description().State()), now
	return n.source
}

// An excerpt is a part of the Change Lists: the entries of successive events.
type excerpt struct {
	From    time.Time // of the event before, or of the creation of the queue
	Upto    names.Position
	Entries []byte
	More    bool // there are later entries
}

// history returns the Change Lists without a gap between them, oldest first, the
// open one last.
func (s documents) history() ([]set.Span, error) {
	st, err := s.Standing()
	if err != nil {
		return nil, err
	}
	return append(slices.Clip(st.Lists), st.Span()), nil
}

// excerpt returns the entries after a position, at most max bytes of them. It
// begins with the oldest if the lists do not reach back so far, or if the queue
// does not have the position: it is of a former queue of the name, or of a newer
// copy of the home.
//
// Events without entries move the position and not its time: the From of the next
// excerpt is the time of the position of this one.
func (s documents) excerpt(after names.Position, max int) (excerpt, error) {
	lists, err := s.history()
	if err != nil {
		return excerpt{}, err
	}
	open := lists[len(lists)-1]
	if after.Seq > open.Last || after.At.Before(s.Since()) {
		after = names.Position{At: lists[0].From}
	}
	if lists[0].First > after.Seq+1 {
		after.At = lists[0].From
	}
	for _, l := range lists {
		if l.Last <= after.Seq || l.Length == 0 {
			continue
		}
		x := excerpt{From: after.At, Upto: names.Position{Seq: l.Last, At: l.Until}, More: l.Last < open.Last}
		text, last, err := s.readList(l, func(r io.ReaderAt) ([]byte, names.Position, error) {
			_, plain := r.(*os.File)
			return names.After(r, l.Length, !plain, after.Seq, max)
		})
		if err != nil {
			return excerpt{}, err
		}
		if x.Entries = text; last.Seq != 0 {
			x.Upto, x.More = last, true
		}
		if len(text) > 0 {
			return x, nil
		}
	}
	return excerpt{Upto: names.Position{Seq: open.Last, At: after.At}}, nil
}

// newest returns the last entries, at most max bytes of them.
func (s documents) newest(max int) (excerpt, error) {
	lists, err := s.history()
	if err != nil {
		return excerpt{}, err
	}
	open := lists[len(lists)-1]
	l := open
	for i := len(lists) - 1; i >= 0 && l.Length == 0; i-- {
		if lists[i].Length > 0 {
			l = lists[i]
		}
	}
	x := excerpt{From: l.From, Upto: names.Position{Seq: open.Last, At: open.Until}}
	if l.Length == 0 {
		return x, nil
	}
	text, before, err := s.readList(l, func(r io.ReaderAt) ([]byte, names.Position, error) { return names.Last(r, l.Length, max) })
	if x.Entries = text; before.Seq != 0 {
		x.From = before.At
	}
	return x, err
}

// readList reads entries of a list.
func (s documents) readList(l set.Span, read func(io.ReaderAt) ([]byte, names.Position, error)) ([]byte, names.Position, error) {
	file, err := s.EntriesOf(l.First, l.Length)
	if err != nil {
		return nil, names.Position{}, err
	}
	defer file.Close()
	text, at, err := read(file)
	if err != nil {
		err = fmt.Errorf("%s: %w", file.Name(), err)
	}
	return text, at, err
}

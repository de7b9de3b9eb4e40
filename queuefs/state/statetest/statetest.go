// Package statetest reads states in every form, so tests can compare the forms
// with each other. Programs read ANVL or JSON, by package state.
package statetest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"cutie/publisher/soif"
	"cutie/queuefs/anvl"
	"cutie/queuefs/digest"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/state"
)

// Read reads a document of class c in form f.
func Read(f state.Form, c *state.Class, data []byte) (state.Document, error) {
	read, ok := readers[f]
	if !ok {
		return state.Document{}, state.ErrForm
	}
	r, err := read(c, data)
	if err != nil {
		return state.Document{}, fmt.Errorf("%s:%s: %w", c.Prefix, c.Root, err)
	}
	return state.Decode(c, anvl.AppendRecord(nil, r))
}

// readers return the properties of a class as in ANVL, where a list is its items.
var readers = map[state.Form]func(*state.Class, []byte) (anvl.Record, error){
	state.ANVL:   func(_ *state.Class, data []byte) (anvl.Record, error) { return anvl.ParseRecord(data) },
	state.JSON:   readJSON,
	state.Turtle: readTurtle,
	state.XHTML:  readPage,
	state.HTML:   readPage,
	state.XML:    readXML,
	state.SOIF:   readSOIF,
}

// readJSON reads the members with the names of terms.
func readJSON(c *state.Class, data []byte) (r anvl.Record, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var members map[string]any
	if err := d.Decode(&members); err != nil {
		return nil, err
	}
	if members["@type"] != c.Root {
		return nil, fmt.Errorf("unexpected %.60v, want %s", members["@type"], c.Root)
	}
	for _, t := range c.Terms {
		member, set := members[t.Name]
		if !set {
			continue
		}
		list, isList := member.([]any)
		if isList != (t.Item != "") {
			return nil, fmt.Errorf("%s: a list, or none", t.Name)
		}
		if !isList {
			list = []any{member}
		}
		for _, item := range list {
			_, number := item.(json.Number)
			_, truth := item.(bool)
			if number != (t.Type == state.Integer) || truth != (t.Type == state.Boolean) {
				return nil, fmt.Errorf("%s: value %v is of the wrong type", t.Name, item)
			}
			r.Add(cmp.Or(t.Item, t.Name), fmt.Sprint(item))
		}
	}
	return r, nil
}

// readSOIF reads the one object there is.
func readSOIF(c *state.Class, data []byte) (r anvl.Record, err error) {
	in := soif.NewReader(bytes.NewReader(data))
	in.Limit = soif.DefaultLimit + 16*len(data) // the input is the limit
	o, err := in.Read()
	if err != nil {
		return nil, err
	}
	if !o.Is(c.Root) {
		return nil, fmt.Errorf("unexpected %.60q, want %s", o.Type, c.Root)
	}
	if _, err := in.Read(); err != io.EOF {
		return nil, errors.New("text behind the state")
	}
	for _, t := range c.Terms {
		name := cmp.Or(t.Item, t.Name)
		for _, text := range o.Values(name) {
			r.Add(name, text)
		}
	}
	return r, nil
}

// An element is any element of XML with what is in it.
type element struct {
	XMLName  xml.Name
	Attrs    []xml.Attr `xml:",any,attr"`
	Elements []element  `xml:",any"`
	Text     string     `xml:",chardata"`
	Inner    string     `xml:",innerxml"`
}

// parse reads a whole document.
func parse(data []byte) (root element, err error) {
	d := xml.NewDecoder(strings.NewReader(string(data)))
	d.Entity = xml.HTMLEntity
	if err := d.Decode(&root); err != nil {
		return root, err
	}
	for {
		token, err := d.Token()
		if err == io.EOF {
			return root, nil
		}
		if text, ok := token.(xml.CharData); err != nil || !ok || strings.TrimSpace(string(text)) != "" {
			return root, fmt.Errorf("more follows the document: %v", err)
		}
	}
}

// text is all text in an element.
func (e *element) text() (string, error) {
	var text strings.Builder
	d := xml.NewDecoder(strings.NewReader("<x>" + e.Inner + "</x>"))
	d.Entity = xml.HTMLEntity
	for {
		token, err := d.Token()
		if err == io.EOF {
			return text.String(), nil
		}
		if err != nil {
			return "", err
		}
		if c, ok := token.(xml.CharData); ok {
			text.Write(c)
		}
	}
}

// readXML reads the properties of c; elements of other names are left out.
func readXML(c *state.Class, data []byte) (r anvl.Record, err error) {
	root, err := parse(data)
	if err == nil && root.XMLName != (xml.Name{Space: c.Namespace, Local: c.Root}) {
		err = errors.New("another root element")
	}
	if err != nil {
		return nil, err
	}
	for _, e := range root.Elements {
		i := slices.IndexFunc(c.Terms, func(t state.Term) bool { return t.Name == e.XMLName.Local })
		if i < 0 || e.XMLName.Space != c.Namespace {
			continue
		}
		list := e.Elements
		if c.Terms[i].Item == "" {
			if len(list) > 0 {
				return nil, fmt.Errorf("%s has elements", e.XMLName.Local)
			}
			list = []element{e}
		}
		name := cmp.Or(c.Terms[i].Item, c.Terms[i].Name)
		for _, item := range list {
			if item.XMLName != (xml.Name{Space: c.Namespace, Local: name}) || len(item.Elements) > 0 {
				return nil, fmt.Errorf("%s has an item %s", e.XMLName.Local, item.XMLName.Local)
			}
			r.Add(name, item.Text)
		}
	}
	return r, nil
}

// readPage reads the first table with the class in its summary, or without a summary, as
// Merritt's. The first cell of a row is the name, the second the value; a list has its items
// in one row, as an ul, or in rows with the name of the items.
func readPage(c *state.Class, data []byte) (r anvl.Record, err error) {
	root, err := parse(data)
	if err != nil {
		return nil, err
	}
	tables := root.find("table", nil)
	i := slices.IndexFunc(tables, func(table element) bool {
		return !slices.ContainsFunc(table.Attrs, func(a xml.Attr) bool {
			return a.Name.Local == "summary" && a.Value != c.Prefix+":"+c.Root
		})
	})
	if i < 0 {
		return nil, fmt.Errorf("no table of %s:%s", c.Prefix, c.Root)
	}
	for _, row := range tables[i].find("tr", nil) {
		if len(row.Elements) != 2 {
			continue
		}
		name, err := row.Elements[0].text()
		if err != nil {
			return nil, err
		}
		cell := row.Elements[1]
		values := []element{cell}
		if len(cell.find("ul", nil)) > 0 {
			values = cell.find("li", nil)
		}
		for _, t := range c.Terms {
			if t.Name != name && (t.Item != name || name == "") || t.Name == name && t.Item != "" && cell.Inner == "" {
				continue
			}
			for _, value := range values {
				text, err := value.text()
				if err != nil {
					return nil, fmt.Errorf("%.40s: %w", name, err)
				}
				r.Add(cmp.Or(t.Item, t.Name), text)
			}
		}
	}
	return r, nil
}

// find appends the outermost elements of a name.
func (e *element) find(name string, all []element) []element {
	for _, in := range e.Elements {
		if in.XMLName.Local == name {
			all = append(all, in)
		} else {
			all = in.find(name, all)
		}
	}
	return all
}

// ErrNoReader is the error for Turtle where rapper, of the Raptor RDF library, is not
// installed.
var ErrNoReader = errors.New("rapper, which reads Turtle, is not installed")

// Readable returns the forms that can be read here.
func Readable(forms []state.Form) (some []state.Form) {
	_, err := exec.LookPath("rapper")
	for _, f := range forms {
		if f != state.Turtle || err == nil {
			some = append(some, f)
		}
	}
	return some
}

const rdf = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"

// A line is one of N-Triples, as rapper writes them: subject, predicate, and the object as
// a node or as a literal.
var line = regexp.MustCompile(`^(\S+) <([^>]*)> (?:(<[^>]*>|_:\S+)|("(?:[^"\\]|\\.)*")\S*) \.$`)

// A graph has the objects of each subject and predicate, in order.
type graph map[string]map[string][]string

func parseTurtle(data []byte) (graph, error) {
	program, err := exec.LookPath("rapper")
	if err != nil {
		return nil, ErrNoReader
	}
	var stderr bytes.Buffer
	cmd := exec.Command(program, "-q", "-i", "turtle", "-o", "ntriples", "-", "http://base.example.org/")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(data), &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, stderr.Bytes())
	}
	g := graph{}
	for text := range strings.Lines(string(out)) {
		m := line.FindStringSubmatch(strings.TrimSuffix(text, "\n"))
		if m == nil {
			return nil, fmt.Errorf("line %.200q", text)
		}
		object := m[3]
		if m[4] != "" {
			if object, err = strconv.Unquote(m[4]); err != nil {
				return nil, fmt.Errorf("literal %.200q", m[4])
			}
		} else if strings.HasPrefix(object, "<") {
			if object, err = strconv.Unquote(`"` + strings.Trim(object, "<>") + `"`); err != nil {
				return nil, fmt.Errorf("reference %.200q", m[3])
			}
		}
		if g[m[1]] == nil {
			g[m[1]] = map[string][]string{}
		}
		g[m[1]][m[2]] = append(g[m[1]][m[2]], object)
	}
	return g, nil
}

// readTurtle reads the statements about the one subject that has the class, or
// properties in its namespace. A list without a collection has its items under their own
// name, as Merritt wrote them.
func readTurtle(c *state.Class, data []byte) (r anvl.Record, err error) {
	g, err := parseTurtle(data)
	if err != nil {
		return nil, err
	}
	found := false
	for _, statements := range g {
		var mine anvl.Record
		for _, t := range c.Terms {
			name := cmp.Or(t.Item, t.Name)
			values := statements[c.Namespace+"/"+t.Name]
			if t.Item != "" && len(values) == 1 {
				if values, err = g.collection(values[0]); err != nil {
					return nil, fmt.Errorf("%s: %w", t.Name, err)
				}
			} else if t.Item != "" {
				values = statements[c.Namespace+"/"+name]
			}
			for _, text := range values {
				mine.Add(name, text)
			}
		}
		if mine == nil && !slices.Contains(statements[rdf+"type"], c.Namespace+"/"+c.Root) {
			continue
		}
		if found {
			return nil, errors.New("more than one subject")
		}
		r, found = mine, true
	}
	if !found {
		return nil, fmt.Errorf("no %s:%s", c.Prefix, c.Root)
	}
	return r, nil
}

// collection returns the items of an RDF collection.
func (g graph) collection(at string) (items []string, err error) {
	for at != rdf+"nil" {
		first, rest := g[at][rdf+"first"], g[at][rdf+"rest"]
		if len(first) != 1 || len(rest) != 1 || len(items) > len(g) {
			return nil, errors.New("value is no collection")
		}
		items, at = append(items, first[0]), rest[0]
	}
	return items, nil
}

// Base is the base of references in samples.
const Base = state.Base("http://cutie.example.org/base")

// Day is the date of the samples.
var Day = time.Date(2010, 4, 20, 16, 0, 0, 0, time.UTC)

// FullJob has a value for every property.
func FullJob() job.Job {
	return job.Job{
		ID: 42, Queue: "uc3+cutie=01^20x", Status: job.Consumed, Seq: 7,
		Filename: "naïve \"file\".bin", MediaType: "text/plain", Submitter: "mrt-ingest/0.6",
		Sidecar: "profile=uc3_content; note=first\nsecond line\t100%",
		Size:    6,
		Digests: []digest.Value{digest.Sum(digest.SHA256, []byte("hello\n")), digest.Sum(digest.MD5, []byte("hello\n"))},
		Batch:   "b1", Consumer: "worker/1 \\ <x>",
		Submitted: Day, Consumed: Day.Add(30*time.Minute + 1500*time.Nanosecond),
		Requeued: Day.Add(time.Minute), Requeues: 2, Updated: Day.Add(2 * time.Minute),
		Owner: "me", Attempts: 3, Lease: job.Lease{Ends: Day.Add(2 * time.Hour), Key: "secret"},
		Held: Day.Add(time.Second), HeldFor: "payload damaged", HeldUntil: Day.Add(3 * time.Hour),
		Outcome: job.Failed, Finished: Day.Add(time.Hour), Message: "no space\n]]> left", Transient: true,
		Results: []job.Result{{Name: "log.txt", MediaType: "text/plain", Size: 3}, {Name: "out"}},
		Extra:   anvl.Record{{Name: "owner", Value: "me"}, {Name: "owner", Value: "you"}},
	}
}

// PlainJob has few values.
func PlainJob() job.Job {
	return job.Job{ID: 1, Queue: "ingest", Status: job.Pending, Seq: 1, Submitted: Day}
}

// FullQueue has a value for every property.
func FullQueue() state.Queue {
	return state.Queue{
		State: ledger.State{
			Info: home.QueueInfo{
				ID: "uc3+cutie=01", Identifier: "uc3:cutie/01", Name: "Queue01",
				Description: "UC3 primary <ingest> & queue", CullingSize: 100, CullingAge: 0,
				VerifyOnRead: true, Created: Day,
				Paused: Day.Add(2 * time.Hour), Closed: true, Acknowledge: job.AckRequired,
				Lease: 90 * time.Second, MaxAttempts: 5, RetryDelay: 30 * time.Second, RetryFactor: 3, RetryMax: 10 * time.Minute,
				Limits: job.Limits{Pending: 100, Active: job.Unlimited, Run: 3600}, Callback: "https://example.org/called?a=1&b=2",
				Digests: digest.SetOf(digest.MD5, digest.SHA512), Dumps: "replica",
			},
			Held: 1, Leased: 2, Failed: 1,
			Pending: 3, Consumed: 2, Deleted: 1, Seq: 12,
			LastEvent: Day.Add(time.Hour), LastSubmission: Day.Add(time.Minute),
			LastConsumption: Day.Add(time.Hour), Oldest: Day.Add(time.Second),
			Mirror: &home.Mirror{Source: "https://first.example.org/", Ended: Day.Add(30 * time.Minute), Last: 9},
		},
		Jobs: state.Jobs{
			Status: job.Pending, After: 2, Limit: 2,
			IDs: []job.ID{3, 4}, More: true,
		},
		Submitted: []job.ID{5, 6},
	}
}

// EmptyQueue is a queue without jobs.
func EmptyQueue() state.Queue {
	return state.Queue{
		State: ledger.State{Info: home.QueueInfo{
			ID: "ingest", CullingSize: -1, CullingAge: -1, VerifyOnRead: true, VerifyOnWrite: true, Created: Day,
		}},
		Jobs: state.Jobs{Limit: 100},
	}
}

// MirrorQueue is a mirror behind its original.
func MirrorQueue() state.Queue {
	q := EmptyQueue()
	q.Seq = 7
	q.Mirror = &home.Mirror{Source: "https://first.example.org/", Audit: home.Audit{Time: Day.Add(time.Minute), Faults: 2}}
	q.Progress = home.Progress{
		Contact: Day.Add(2 * time.Hour), Synced: Day.Add(time.Hour), Known: 10, Trouble: "connection refused"}
	return q
}

// Service has two queues.
func Service() state.Service {
	return state.Service{
		ServiceInfo: home.ServiceInfo{
			Name: "Cutie01", Identifier: "uc3:cutie01", Description: "UC3 queuing service",
			Scheme: "Cutie/0.3/0.1", BaseURI: "http://cutie.example.org/base/",
			SupportURI: "mailto:merritt-support@example.org", Created: Day, Modified: Day.Add(time.Hour),
		},
		Queues: []string{"ingest", "uc3+cutie=01"},
	}
}

// Node is a service that is a standby.
func Node() state.Service {
	s := Service()
	s.Node = state.Node{Role: "standby", Owner: "process 1 on here & there", OwnerURI: "http://10.0.0.1:8080/",
		Batch: 42, UpToDate: Day.Add(time.Minute)}
	return s
}

// Batch is done.
func Batch() state.Batch {
	return state.Batch{
		ID: "7", Queue: "uc3+cutie=01", Status: state.BatchDone, Created: Day, Finished: Day.Add(time.Minute),
		Lines: 3, Fetched: 3, Octets: 1 << 40, Name: "b000000000005-2", Detail: "half of it",
		Errors:    []string{"line 2: http://h/?a=1&b=2: not found", " line 3: <gone> \n"},
		Submitted: []job.ID{5, 6},
	}
}

// Documents are all kinds of documents by the name of their golden file.
func Documents() map[string]state.Document {
	full, plain, queue, empty, mirror := FullJob(), PlainJob(), FullQueue(), EmptyQueue(), MirrorQueue()
	svc, node, bat := Service(), Node(), Batch()
	begun := state.Batch{ID: "000001", Queue: "ingest", Status: state.BatchFetching, Created: Day}
	none := state.Service{ServiceInfo: home.ServiceInfo{Scheme: "Cutie/0.3/1.0", BaseURI: "http://h/"}}
	return map[string]state.Document{
		"job":           state.OfJob(Base, &full),
		"job-plain":     state.OfJob(Base, &plain),
		"queue":         state.OfQueue(Base, &queue),
		"queue-empty":   state.OfQueue(Base, &empty),
		"queue-mirror":  state.OfQueue(Base, &mirror),
		"service":       state.OfService(&svc),
		"service-node":  state.OfService(&node),
		"service-empty": state.OfService(&none),
		"batch":         state.OfBatch(Base, &bat),
		"batch-new":     state.OfBatch(Base, &begun),
		"exception":     state.OfException(state.Exception{Status: 404, Detail: "queue not found: \"x\""}),
		"help":          state.OfHelp(state.Help{Summary: "a queue", Text: "one\ntwo", Methods: []string{"Submit-job"}}),
	}
}

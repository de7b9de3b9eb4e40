package dashboard

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"cutie/publisher/about"
	"cutie/queuefs/state"
)

// About prints the pages about a Source and its sets. They ask for nothing and run
// nothing.
var About = about.Page{
	Print:  func(a *about.About) []byte { return appendPage(nil, "about", newAboutPage(a)) },
	Policy: "default-src 'none'; style-src " + state.StyleHash + "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}

// An aboutPage is a page of XHTML 1.0 Strict, well-formed as HTML too.
type aboutPage struct {
	*about.About
	Facts      []fact
	Page, Data string
}

// A fact is one row: a value, or references.
type fact struct {
	Name, Value string
	Refs        []string
}

func newAboutPage(a *about.About) *aboutPage {
	p := &aboutPage{About: a, Page: about.PageName, Data: about.DataName}
	p.add("ResourceSync version", a.Version)
	if a.OfSet == nil {
		p.refer("Source Description", a.About)
		p.add("queues", strconv.Itoa(*a.Queues))
	} else {
		p.addSet(a.About, a.OfSet)
	}
	p.add("digests", strings.Join(a.Hashes, ", "))
	p.refer("mirrors", a.Mirrors...)
	if a.Via != "" {
		p.refer("originally from", a.Via)
	}
	after := func(name string, seconds int64, never string) {
		if seconds == 0 {
			p.add(name, never)
		} else {
			p.add(name, inWords(time.Duration(seconds)*time.Second))
		}
	}
	after("a Change List is closed at the latest after", a.Retention.Period, "it is full")
	after("a Resource Dump is made after", a.Retention.DumpPeriod, "somebody asks for it")
	after("a closed list is in the index for", a.Retention.Current, "as long as it is kept")
	after("what is no longer current is kept for", a.Retention.Keep, "ever")
	if a.Retention.KeepOctets > 0 {
		p.add("and up to", grouped(number(a.Retention.KeepOctets))+" octets a set")
	}
	p.add("limits of a document", grouped(strconv.Itoa(a.Limits.Entries))+" entries, "+grouped(number(a.Limits.Octets))+" octets")
	p.add("limit of a package", grouped(number(a.Limits.Package))+" octets of files")
	p.add("software", a.Software)
	return p
}

// addSet adds the facts that only a set has.
func (p *aboutPage) addSet(list string, s *about.OfSet) {
	p.refer("Capability List", list)
	p.refer("queue", s.Queue.State)
	if s.Queue.Description != "" {
		p.add("about the queue", s.Queue.Description)
	}
	p.refer("properties of the queue", s.Queue.Info)
	p.add("jobs", fmt.Sprintf("%d pending, %d consumed, %d deleted", s.Queue.Pending, s.Queue.Consumed, s.Queue.Deleted))
	p.add("resources", number(s.Resources))
	p.add("created", instant(s.Queue.Created))
	p.add("last event", instant(s.Queue.LastEvent))
	p.add("events", strconv.FormatUint(s.Queue.Events, 10))
	p.add("changes are listed since", instant(s.Changes.From))
	p.add("the open list begins", instant(s.Changes.OpenFrom))
	p.add("changes in the open list", strconv.Itoa(s.Changes.Open))
	p.add("closed lists", strconv.Itoa(s.Changes.Closed))
	p.add("packages of changes", strconv.Itoa(s.Changes.Packages))
	if s.Dump != nil {
		packages := " packages"
		if s.Dump.Packages == 1 {
			packages = " package"
		}
		p.add("Resource Dump", "of "+instant(s.Dump.At)+", "+strconv.Itoa(s.Dump.Packages)+packages)
	}
	p.add("octets published", grouped(number(s.Octets)))
}

func (p *aboutPage) add(name, value string) {
	p.Facts = append(p.Facts, fact{Name: name, Value: value})
}

func (p *aboutPage) refer(name string, refs ...string) {
	if len(refs) > 0 {
		p.Facts = append(p.Facts, fact{Name: name, Refs: refs})
	}
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func instant(t time.Time) string { return t.Format(time.RFC3339Nano) }

// inWords prints a duration of whole seconds without parts of 0.
func inWords(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

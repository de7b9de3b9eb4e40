package rest_test

import (
	"net/url"
	"reflect"
	"testing"
	"time"

	"cutie/queuefs/home"
	"cutie/queuefs/rest"
	"cutie/queuefs/rest/client"
	"cutie/queuefs/state"
	"cutie/queuefs/state/statetest"
)

// sample returns a value of a property that is not its default.
func sample(p *home.Property) string {
	switch p.Name {
	case "limits":
		return "pending=3,life=0"
	case "digests":
		return "SHA-256 MD5"
	case "dumps":
		return "replica"
	case "callback":
		return "https://example.org"
	case "uwsArchive":
		return "false" // true excludes version 1.0
	}
	switch {
	case p.Words != nil:
		return p.Words[1]
	case p.Kind() == home.Truth:
		return "true"
	case p.Kind() == home.Date:
		return "2026-01-02T03:04:05.000006Z"
	case p.Kind() != home.Text:
		return "7"
	}
	return "a text"
}

// Each property can be given by each way there is, and says the same in each form of state.
func TestEveryPropertyCanBeSetInEveryWay(t *testing.T) {
	s := newSite(t, rest.Options{})
	c := client.New(s.url, nil)
	all := home.NewQueue("all", time.Time{})
	var settings client.Settings
	for i := range home.Properties {
		p := &home.Properties[i]
		if p.Fixed {
			continue
		}
		value := sample(p)
		settings.Add(p.Name, value)
		if err := p.Set(&all, value); err != nil {
			t.Fatal(err)
		}
		if got := string(p.Append(nil, &all)); got != value {
			t.Errorf("%s: got %q want %q", p.Name, got, value)
		}
	}
	for v, i := reflect.ValueOf(all), 0; i < v.NumField(); i++ {
		if f := v.Type().Field(i); f.Name != "Created" && v.Field(i).IsZero() {
			t.Errorf("QueueInfo.%s has no property", f.Name)
		}
	}
	query := url.Values{"t": {"anvl"}}
	for _, p := range settings {
		query.Set(p.Name, p.Value)
	}
	for id, set := range map[string]func(q string) error{
		"client-set":    func(q string) error { _, err := c.SetQueue(ctx, q, settings); return err },
		"client-create": func(q string) error { all.ID, all.Identifier = "", q; _, err := c.CreateQueue(ctx, all); return err },
		"post":          func(q string) error { s.do("POST", "/state/"+q+"?"+query.Encode(), "").want(t, 200); return nil },
		"put":           func(q string) error { s.do("PUT", "/state/"+q+"?"+query.Encode(), "").want(t, 201); return nil },
	} {
		query.Set("name", id)
		settings.Set("name", id)
		all.Name = id
		if id == "client-set" || id == "post" {
			if _, err := s.svc.CreateQueue(ctx, home.NewQueue(id, time.Time{})); err != nil {
				t.Fatal(err)
			}
		}
		if err := set(id); err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		q, err := s.svc.Ask(id)
		if err != nil {
			t.Fatal(err)
		}
		all.ID, all.Identifier, all.Created = id, id, q.Info().Created
		want(t, id, q.Info(), all)
		got, err := home.ParseQueue(id, all.Text())
		if want(t, "queue-info.txt", got, all); err != nil {
			t.Error(err)
		}
		for _, form := range statetest.Readable([]state.Form{state.ANVL, state.JSON, state.Turtle, state.XHTML, state.XML, state.SOIF}) {
			d, err := statetest.Read(form, state.QueueClass, []byte(s.do("GET", "/state/"+id+"?t="+form.String(), "").body))
			if err != nil {
				t.Fatal(err)
			}
			read, err := d.Queue()
			if want(t, form.String(), read.Info, all); err != nil {
				t.Error(err)
			}
		}
	}
}

package table_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"cutie/queuefs/durable"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/table"
)

// texts returns the texts of a page, and checks that it is read as it was written.
func texts(t testing.TB, p *table.Page) map[job.ID]string {
	t.Helper()
	data := p.Append(nil)
	again, err := table.ParsePage(data)
	must(t, err)
	if !bytes.Equal(again.Append(nil), data) {
		t.Fatal("a page is not printed as it was read")
	}
	all, err := again.Texts()
	must(t, err)
	found := map[job.ID]string{}
	for i, x := range all {
		if i > 0 && all[i-1].Job >= x.Job {
			t.Fatalf("%v comes after %v", x.Job, all[i-1].Job)
		}
		found[x.Job] = fmt.Sprint(x.At, " ", string(x.Text))
		of, err := again.Frame(x.Job)
		must(t, err)
		has := false
		for _, y := range of {
			has = has || reflect.DeepEqual(x, y)
		}
		if !has {
			t.Fatalf("the frame of %v does not have it", x.Job)
		}
		if len(x.Text) > 64<<10 && len(of) > 1 {
			t.Fatalf("a text of %d bytes is not alone", len(x.Text))
		}
	}
	return found
}

// A page has the last text of each job after any changes, and none of those that are gone.
func TestPageHasTheLastTexts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const number = 7
	p := &table.Page{Number: number}
	want := map[job.ID]string{}
	for round := range 40 {
		changed := map[job.ID]table.Text{}
		for range r.IntN(200) {
			x := table.Text{Job: number*index.PageJobs + job.ID(r.IntN(index.PageJobs)), At: journal.LSN(r.Uint64())}
			switch r.IntN(50) {
			case 0, 1, 2, 3, 4, 5, 6, 7, 8, 9:
			case 10:
				x.Text = []byte(strings.Repeat("long text ", 6553+r.IntN(3)))
			case 11:
				x.Text = []byte{}
			default:
				x.Text = fmt.Appendf(nil, "identifier: %v\nround: %d", x.Job, round)
			}
			changed[x.Job] = x
		}
		var all []table.Text
		for id, x := range changed {
			all = append(all, x)
			if delete(want, id); x.Text != nil {
				want[id] = fmt.Sprint(x.At, " ", string(x.Text))
			}
		}
		var err error
		p, err = p.With(job.Seq(round), all)
		must(t, err)
		if got := texts(t, p); !reflect.DeepEqual(got, want) || p.Version != job.Seq(round) {
			t.Fatalf("round %d: %d texts at %d, want %d", round, len(got), p.Version, len(want))
		}
	}
	for id := range want {
		var err error
		p, err = p.With(50, []table.Text{{Job: id}})
		must(t, err)
	}
	if got := len(p.Append(nil)); got != 28 {
		t.Errorf("an empty page takes %d bytes, want its header", got)
	}
}

// samplePage returns a page with short texts and a long one.
func samplePage(t testing.TB) *table.Page {
	t.Helper()
	p, err := (&table.Page{}).With(3, []table.Text{{Job: 1, At: 2, Text: []byte("one")}, {Job: 2, At: 3, Text: []byte("two")},
		{Job: 3, Text: bytes.Repeat([]byte("three"), 15_000)}, {Job: 1023, At: 1 << 60, Text: []byte("last")}})
	must(t, err)
	return p
}

// Each changed or lost byte of a page is damage, in its directory or in one of its frames.
func TestDamageOfPages(t *testing.T) {
	whole := samplePage(t).Append(nil)
	read := func(data []byte) error {
		p, err := table.ParsePage(data)
		if err == nil {
			_, err = p.Texts()
		}
		return err
	}
	must(t, read(whole))
	for i := range whole {
		flipped := bytes.Clone(whole)
		flipped[i] ^= 0x10
		for what, data := range map[string][]byte{"changed": flipped, "cut": whole[:i]} {
			if err := read(data); !errors.Is(err, durable.ErrDamaged) {
				t.Fatalf("byte %d %s: %v", i, what, err)
			}
		}
	}
	for what, data := range map[string][]byte{"longer": append(bytes.Clone(whole), 0), "zeros": make([]byte, len(whole))} {
		if err := read(data); !errors.Is(err, durable.ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := samplePage(t).With(4, []table.Text{{Job: 5000, Text: []byte("x")}}); err == nil {
		t.Error("a page takes a job of another one")
	}
	if _, err := samplePage(t).With(4, []table.Text{{Job: 5, Text: make([]byte, table.MaxText+1)}}); !errors.Is(err, job.ErrTooBig) {
		t.Errorf("a text above the limit: %v", err)
	}
}

func FuzzPage(f *testing.F) {
	f.Add(samplePage(f).Append(nil))
	f.Add((&table.Page{Number: 5, Version: 9}).Append(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := table.ParsePage(data)
		if err != nil {
			return
		}
		if !bytes.Equal(p.Append(nil), data) {
			t.Fatal("a page is not printed as it was read")
		}
		all, err := p.Texts()
		if err != nil {
			return
		}
		// Packed anew it has the same texts.
		again, err := (&table.Page{Number: p.Number}).With(p.Version, all)
		must(t, err)
		if got, err := again.Texts(); err != nil || !reflect.DeepEqual(got, all) {
			t.Fatalf("%d texts became %d, %v", len(all), len(got), err)
		}
	})
}

package sitemap_test

import (
	"encoding/xml"
	"io"
	"testing"
	"time"

	"cutie/sitemap"
)

// fullEntry is what a Source writes for each change.
func fullEntry() sitemap.Entry {
	return sitemap.Entry{
		Loc:      "http://example.com/queues/ingest/payload/j000000012345",
		LastMod:  time.Date(2026, 3, 4, 5, 6, 7, 123456000, time.UTC),
		Change:   sitemap.Created,
		DateTime: time.Date(2026, 3, 4, 5, 6, 7, 123457000, time.UTC),
		Hashes: []sitemap.Hash{
			{Alg: "md5", Value: "1584abdf8ebdc9802ac0c6a7402c03b6"},
			{Alg: "sha-256", Value: "854f61290e2e197a11bc91063afce22e43f8ccc655237050ace766adc68dc784"},
		},
		Length: 8876,
		Type:   "application/zip",
		Event:  "submit",
		Seq:    12345,
	}
}

func BenchmarkAppendEntry(b *testing.B) {
	e := fullEntry()
	buf := sitemap.AppendEntry(nil, sitemap.URLSet, &e)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		buf = sitemap.AppendEntry(buf[:0], sitemap.URLSet, &e)
	}
}

func BenchmarkWriter(b *testing.B) {
	e := fullEntry()
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		w := sitemap.NewWriter(io.Discard)
		if err := w.WriteHead(sitemap.URLSet, changeListHead()); err != nil {
			b.Fatal(err)
		}
		for range 1000 {
			if err := w.Write(e); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/entry")
}

// BenchmarkEncodingXML writes the same entry with the standard library.
func BenchmarkEncodingXML(b *testing.B) {
	type md struct {
		Change   string `xml:"change,attr"`
		DateTime string `xml:"datetime,attr"`
		Hash     string `xml:"hash,attr"`
		Length   int64  `xml:"length,attr"`
		Type     string `xml:"type,attr"`
		Event    string `xml:"cut:event,attr"`
		Seq      uint64 `xml:"cut:seq,attr"`
	}
	type url struct {
		Loc     string `xml:"loc"`
		LastMod string `xml:"lastmod"`
		MD      md     `xml:"rs:md"`
	}
	e := fullEntry()
	enc := xml.NewEncoder(io.Discard)
	b.ReportAllocs()
	for b.Loop() {
		err := enc.Encode(url{
			Loc:     e.Loc,
			LastMod: e.LastMod.Format(time.RFC3339Nano),
			MD: md{
				Change:   string(e.Change),
				DateTime: e.DateTime.Format(time.RFC3339Nano),
				Hash:     "md5:" + e.Hashes[0].Value + " sha-256:" + e.Hashes[1].Value,
				Length:   e.Length,
				Type:     e.Type,
				Event:    e.Event,
				Seq:      e.Seq,
			},
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReader(b *testing.B) {
	const entries = 1000
	e := fullEntry()
	doc := sitemap.AppendHead(nil, sitemap.URLSet, changeListHead())
	for range entries {
		doc = sitemap.AppendEntry(doc, sitemap.URLSet, &e)
	}
	doc = sitemap.AppendFoot(doc, sitemap.URLSet)
	b.SetBytes(int64(len(doc)))
	for b.Loop() {
		parse(b, doc)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/entries, "ns/entry")
}

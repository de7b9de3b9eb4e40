package queuefs

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"
)

// somePage returns a page with a job in every state; with md5 the MD5 of one
// payload is known.
func somePage(md5 bool) *page {
	x := &index{}
	for i, m := range []marks{{status: Pending}, {status: Pending, held: true}, {status: Consumed, leased: true},
		{status: Consumed, outcome: Failed, results: true}, {status: Deleted}} {
		id := JobID(3 * (i + 1))
		p := x.grow(id)
		s := p.slot(int(id))
		s.putSize(int64(i))
		s.putChanged(1e15 + int64(i))
		copy(s.sha(), bytes.Repeat([]byte{byte(i + 1)}, 32))
		copy(s.fileSHA(), bytes.Repeat([]byte{byte(i + 101)}, 32))
		x.stand(p, s, id, m)
		p.version, p.at = 77, 1e15
	}
	if md5 {
		x.pages[0].setMD5(6, [16]byte{1, 2, 3})
	}
	return x.pages[0]
}

// samePage tells whether two pages say the same of their jobs.
func samePage(a, b *page) bool {
	for i := range PageJobs {
		if a.md5(i) != b.md5(i) {
			return false
		}
		s, o := a.slot(i), b.slot(i)
		if s[0] != o[0] || (s[1]^o[1])&(flagHeld|flagLeased) != 0 || !bytes.Equal(s[2:], o[2:]) {
			return false
		}
	}
	return a.version == b.version && a.at == b.at
}

func TestPageReadsAsWritten(t *testing.T) {
	for name, want := range map[string]*page{"plain": somePage(false), "with MD5": somePage(true), "vacant": {slots: noSlots, version: 3, at: 4}} {
		data := want.image(nil, "jobs", 0)
		got, err := parsePage(data, "jobs", 0)
		if err != nil || !samePage(got, want) || got.changed {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
		if _, err := parsePage(data, "jobs", 1); err == nil {
			t.Errorf("%s: it passes for another page", name)
		}
		if _, err := parsePage(data, "other", 0); err == nil {
			t.Errorf("%s: it passes for a page of another queue", name)
		}
	}
}

// oldImage returns a page as version 0.1 wrote it first.
func oldImage(p *page) []byte {
	data := make([]byte, pageHeader, pageHeader+PageJobs*oldSlotSize)
	copy(data, oldPageMagic)
	binary.LittleEndian.PutUint64(data[16:], uint64(p.version))
	binary.LittleEndian.PutUint64(data[24:], uint64(p.at))
	for i := range PageJobs {
		s, md5 := p.slot(i), p.md5(i)
		data = append(data, s[0], s[1]&(flagHeld|flagLeased))
		data = append(data, s[2:64]...)
		data = append(data, md5[:]...)
		data = append(data, s.fileSHA()...)
		data = append(data, "MD5 of job files"...)
	}
	binary.LittleEndian.PutUint32(data[8:], crc32.Checksum(data[16:], castagnoli))
	return data
}

func TestPageOfTheEarlierLayoutReads(t *testing.T) {
	want := somePage(true)
	got, err := parsePage(oldImage(want), "jobs", 0)
	if err != nil || !samePage(got, want) || !got.changed {
		t.Errorf("got %+v, %v", got, err)
	}
}

func FuzzPage(f *testing.F) {
	f.Add(somePage(true).image(nil, "jobs", 0))
	f.Add(oldImage(somePage(true)))
	f.Add((&page{slots: noSlots}).image(nil, "jobs", 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := parsePage(data, "jobs", 0)
		if err != nil {
			return
		}
		again, err := parsePage(p.image(nil, "jobs", 0), "jobs", 0)
		if err != nil || !samePage(p, again) {
			t.Fatalf("got %+v, %v", again, err)
		}
	})
}

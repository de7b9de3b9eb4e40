package home

import (
	"errors"
	"fmt"
	"strconv"
)

// maxLife is the longest life of a job of UWS, in hours: 114 years.
const maxLife = 1_000_000

// UWSProperties are the properties of a queue for clients of UWS.
var UWSProperties = [...]UWSProperty{
	{Name: "uwsVersion", Words: [2]string{"1.1", "1.0"}, Help: "version of UWS, 1.0 for clients of no other"},
	{Name: "uwsJdl", Words: [2]string{"form", "payload"}, Help: "what a job has: parameters, or one opaque parameter"},
	{Name: "uwsExecutionDuration", Most: 1<<31 - 1, Help: "seconds that a job may run; 0: any time"},
	{Name: "uwsMaxExecutionDuration", Most: 1<<31 - 1, Help: "seconds that a client may ask for; 0: any time"},
	{Name: "uwsDestruction", Most: maxLife, Help: "hours until a job is destroyed; 0: never; by default the culling age, or 720"},
	{Name: "uwsMaxDestruction", Most: maxLife, Help: "hours until the destruction that a client may ask for; 0: see limits"},
	{Name: "uwsArchive", Words: [2]string{"false", "true"}, Help: "whether a job is kept as ARCHIVED at its destruction, with its parameters"},
	{Name: "uwsQuote", Most: 1<<31 - 1, Help: "seconds a job is expected to take, the quote of jobs; by default their execution duration"},
}

// A UWSProperty is one of two words, the first by default, or a number up to Most.
type UWSProperty struct {
	Name  string
	Words [2]string
	Most  int64 // 0: a word
	Help  string
}

// UWS are the values of UWSProperties as they were given; "" is the default.
type UWS [len(UWSProperties)]string

// Set gives a property a value, "" for the default. ok is false if none has the name.
func (u *UWS) Set(name, value string) (ok bool, err error) {
	for i, p := range UWSProperties {
		if p.Name != name {
			continue
		}
		if err := p.check(value); err != nil {
			return true, err
		}
		u[i] = value
		return true, nil
	}
	return false, nil
}

func (p *UWSProperty) check(value string) error {
	switch {
	case value == "":
	case p.Most == 0 && value != p.Words[0] && value != p.Words[1]:
		return fmt.Errorf("%s is %.40q, neither %s nor %s", p.Name, value, p.Words[0], p.Words[1])
	case p.Most > 0:
		if n, err := strconv.ParseInt(value, 10, 64); err != nil || n < 0 || n > p.Most {
			return fmt.Errorf("%s is %.40q, not a number from 0 to %d", p.Name, value, p.Most)
		}
	}
	return nil
}

// Is reports whether a property has its second word.
func (u *UWS) Is(name string) bool {
	for i, p := range UWSProperties {
		if p.Name == name {
			return u[i] == p.Words[1] && u[i] != ""
		}
	}
	return false
}

// Number returns a property, or absent if it is not set.
func (u *UWS) Number(name string, absent int64) int64 {
	for i, p := range UWSProperties {
		if p.Name != name {
			continue
		}
		if n, err := strconv.ParseInt(u[i], 10, 64); err == nil {
			return n
		}
	}
	return absent
}

func (u *UWS) check() error {
	for i := range UWSProperties {
		if err := UWSProperties[i].check(u[i]); err != nil {
			return err
		}
	}
	if u.Is("uwsVersion") && u.Is("uwsArchive") {
		return errors.New("uwsArchive is true, and version 1.0 has no phase for it")
	}
	return nil
}

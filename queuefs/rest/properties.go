package rest

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"cutie/queuefs"
	"cutie/queuefs/anvl"
	"cutie/queuefs/state"
)

// properties reads settings of a queue: names and values as in the state of a
// queue, from the query and from a body in the form of ANVL, JSON or an HTML
// form.
func (h *Handler) properties(w http.ResponseWriter, r *request) (anvl.Record, error) {
	contentType, err := r.contentType()
	if err != nil {
		return nil, err
	}
	data, err := h.small(w, r)
	if err != nil {
		return nil, err
	}
	rec, err := readProperties(contentType, data)
	if err != nil {
		return nil, err
	}
	for name, values := range r.query {
		if name == "t" || name == "v" || name == "D" {
			continue
		}
		for _, v := range values {
			rec.Add(name, v)
		}
	}
	seen := map[string]bool{}
	for _, p := range rec {
		if seen[p.Name] {
			return nil, badRequest("%.40q is repeated", p.Name)
		}
		seen[p.Name] = true
	}
	return rec, nil
}

// checkText refuses characters outside of XML 1.0, since some form of a state
// could not have them. Line ends and tabs are left to the engine; its labels
// have none.
func checkText(name, value string) error {
	for i, r := range value {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(value[i:], "\ufffd"):
			return badRequest("%.40q is not UTF-8 at octet %d", name, i)
		case r < ' ' && r != '\t' && r != '\n' && r != '\r', r == 0x7f, r == 0xfffe, r == 0xffff:
			return badRequest("%.40q has the character %U at octet %d, which a state cannot say", name, r, i)
		}
	}
	return nil
}

// setProperty gives a queue a property. An empty value unsets it.
func setProperty(info *queuefs.QueueInfo, name, value string, now time.Time) (err error) {
	if err := checkText(name, value); err != nil {
		return err
	}
	switch name {
	case "name":
		info.Name = value
	case "description":
		info.Description = value
	case "cullingSizeThreshold":
		info.CullingSize, err = threshold(name, value)
	case "cullingAgeThreshold":
		info.CullingAge, err = threshold(name, value)
	case "verifyOnRead":
		info.VerifyOnRead, err = boolean(name, value)
	case "verifyOnWrite":
		info.VerifyOnWrite, err = boolean(name, value)
	case "S":
		switch {
		case value == "restart":
			info.Paused = time.Time{}
		case value != "pause":
			err = badRequest("S is %.40q, neither pause nor restart", value)
		case info.Paused.IsZero():
			info.Paused = now
		}
	case "closed":
		info.Closed, err = boolean(name, value)
	case "acknowledge":
		info.Acknowledge, err = queuefs.ParseAcknowledge(value)
	case "leaseDuration":
		var n int64
		if n, err = threshold(name, value); n > int64(queuefs.MaxLease/time.Second) {
			err = badRequest("%s is more than %d seconds", name, queuefs.MaxLease/time.Second)
		}
		info.Lease = time.Duration(max(n, 0)) * time.Second
	case "maxAttempts":
		var n int64
		n, err = threshold(name, value)
		info.MaxAttempts = int(min(max(n, 0), 1<<31-1))
	case "callback":
		info.Callback = value
	case "digests":
		info.Digests, err = queuefs.ParseDigests(value)
	default:
		err = badRequest("%.40q is not known here: it is no property to give a queue", name)
	}
	return err
}

// threshold reads a number; the empty text leaves it unset.
func threshold(name, value string) (int64, error) {
	if value == "" {
		return -1, nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 {
		return 0, badRequest("%s is %.40q, not a number from 0 to %d", name, value, int64(math.MaxInt64))
	}
	return n, nil
}

func boolean(name, value string) (bool, error) {
	if value != "true" && value != "false" {
		return false, badRequest("%s is %.40q, neither true nor false", name, value)
	}
	return value == "true", nil
}

// readProperties reads the names and values of a body.
func readProperties(contentType string, data []byte) (anvl.Record, error) {
	if len(data) == 0 {
		return nil, nil
	}
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, badRequest("Content-Type: %v", err)
	}
	switch media {
	case "application/x-www-form-urlencoded":
		values, err := url.ParseQuery(string(data))
		if err != nil {
			return nil, badRequest("form: %v", err)
		}
		var rec anvl.Record
		for name, all := range values {
			for _, v := range all {
				rec.Add(name, v)
			}
		}
		return rec, nil
	case "multipart/form-data":
		var rec anvl.Record
		err := eachPart(strings.NewReader(string(data)), params["boundary"], func(p *multipart.Part) error {
			text, err := io.ReadAll(p)
			rec.Add(p.FormName(), string(text))
			return err
		})
		return rec, err
	}
	form, _ := state.FormOf(media)
	switch form {
	case state.ANVL:
		rec, err := anvl.ParseRecord(data)
		if err != nil {
			return nil, badRequest("%v", err)
		}
		return rec, nil
	case state.JSON:
		return readJSON(data)
	}
	return nil, unsupportedBody(media)
}

func readJSON(data []byte) (anvl.Record, error) {
	var object map[string]any
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, badRequest("JSON: %v", err)
	}
	if inner, ok := object["que:queueState"].(map[string]any); ok && len(object) == 1 {
		object = inner
	}
	var rec anvl.Record
	for name, value := range object {
		if name == "xmlns:que" {
			continue
		}
		name = strings.TrimPrefix(name, "que:")
		switch v := value.(type) {
		case nil:
		case string:
			rec.Add(name, v)
		case bool:
			rec.Add(name, strconv.FormatBool(v))
		case float64:
			rec.Add(name, strconv.FormatFloat(v, 'f', -1, 64))
		default:
			return nil, badRequest("%s: %s is no value for a property", name, fmt.Sprintf("%.40v", v))
		}
	}
	return rec, nil
}

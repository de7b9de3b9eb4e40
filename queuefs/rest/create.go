package rest

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"cutie/queuefs"
	"cutie/queuefs/anvl"
	"cutie/queuefs/state"
)

// createQueue makes a queue of the name in the path. Its properties come in the
// body, named as in the state of a queue: as a form, as ANVL, or as JSON, with
// or without envelope and prefixes. New queues verify unless told otherwise.
func (h *Handler) createQueue(w http.ResponseWriter, r *request) error {
	form, err := r.form()
	if err != nil {
		return err
	}
	if err := r.only(); err != nil {
		return err
	}
	data, err := h.small(w, r)
	if err != nil {
		return err
	}
	properties, err := readProperties(r.Header.Get("Content-Type"), data)
	if err != nil {
		return err
	}
	name := r.PathValue("queue")
	info := queuefs.QueueInfo{
		Identifier: name, CullingSize: -1, CullingAge: -1, VerifyOnWrite: true,
	}
	seen := map[string]bool{}
	for _, p := range properties {
		if seen[p.Name] {
			return badRequest("%.40q is repeated", p.Name)
		}
		seen[p.Name] = true
		if err := setProperty(&info, p.Name, p.Value); err != nil {
			return err
		}
	}
	want, err := queuefs.CleanQueueID(name)
	if err != nil {
		return err
	}
	if id, err := queuefs.CleanQueueID(info.Identifier); err != nil {
		return err
	} else if id != want {
		return badRequest("identifier %.80q is not that of the path, %.80q", info.Identifier, name)
	}
	q, err := h.svc.CreateQueue(r.Context(), info)
	if err != nil {
		return err
	}
	d := state.OfQueue(h.base(), &state.Queue{QueueState: q.State()})
	w.Header().Set("Location", d.Subject)
	h.answer(w, http.StatusCreated, form, &d)
	return nil
}

func setProperty(info *queuefs.QueueInfo, name, value string) (err error) {
	switch name {
	case "identifier":
		info.Identifier = value
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
	default:
		err = badRequest("%.40q is no property to give a queue", name)
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
		return 0, badRequest("%s is %.40q, not a number from 0", name, value)
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
	form, err := state.FormOf(media)
	if err != nil {
		return nil, &Error{http.StatusUnsupportedMediaType, "unsupported request form: " + media}
	}
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
	return nil, &Error{http.StatusUnsupportedMediaType, "unsupported request form: " + media}
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

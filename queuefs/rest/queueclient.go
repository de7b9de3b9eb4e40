package rest

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/anvl"
	"cutie/queuefs/state"
)

// A Settings is a list of properties of a queue to set, by the names of its
// state, in order: name, description, cullingSizeThreshold (jobs),
// cullingAgeThreshold (hours), verifyOnRead, verifyOnWrite, closed,
// acknowledge, leaseDuration (seconds), maxAttempts, callback and digests; S is
// pause or restart. An empty value unsets a property.
type Settings = anvl.Record

// CreateQueue makes an empty queue of info.Identifier, or info.ID if it is
// empty, and returns its state. The error is [queuefs.ErrQueueExists] if there
// is one.
func (c *Client) CreateQueue(ctx context.Context, info queuefs.QueueInfo) (state.Queue, error) {
	if info.Identifier == "" {
		info.Identifier = info.ID
	}
	var settings Settings
	add := func(name, value string, ok bool) {
		if ok {
			settings.Add(name, value)
		}
	}
	add("name", info.Name, info.Name != "")
	add("description", info.Description, info.Description != "")
	add("cullingSizeThreshold", strconv.FormatInt(info.CullingSize, 10), info.CullingSize >= 0)
	add("cullingAgeThreshold", strconv.FormatInt(info.CullingAge, 10), info.CullingAge >= 0)
	add("verifyOnRead", strconv.FormatBool(info.VerifyOnRead), true)
	add("verifyOnWrite", strconv.FormatBool(info.VerifyOnWrite), true)
	add("S", "pause", !info.Paused.IsZero())
	add("closed", "true", info.Closed)
	add("acknowledge", info.Acknowledge.String(), info.Acknowledge != queuefs.AckNone)
	add("leaseDuration", strconv.FormatInt(int64(info.Lease/time.Second), 10), info.Lease > 0)
	add("maxAttempts", strconv.Itoa(info.MaxAttempts), info.MaxAttempts > 0)
	add("callback", info.Callback, info.Callback != "")
	add("digests", queuefs.FormatDigests(info.Digests), info.Digests != 0)
	return c.sendSettings(ctx, http.MethodPut, info.Identifier, settings, "*")
}

// SetQueue sets properties of a queue and returns its state. Renaming a queue
// is an error that wraps [queuefs.ErrBadName].
func (c *Client) SetQueue(ctx context.Context, queue string, settings Settings) (state.Queue, error) {
	return c.sendSettings(ctx, http.MethodPost, queue, settings, "")
}

func (c *Client) sendSettings(ctx context.Context, method, queue string, settings Settings, unless string) (state.Queue, error) {
	var text []byte
	for _, p := range settings {
		text = anvl.AppendElement(text, p.Name, p.Value)
	}
	header := http.Header{"Content-Type": {state.ANVL.MediaType()}}
	if unless != "" {
		header.Set("If-None-Match", unless)
	}
	data, err := c.state(ctx, method, state.ANVL, c.ref(nil, "state", queue), header, text)
	return decodeQueue(data, err)
}

// RemoveQueue removes a queue without jobs; the error is [queuefs.ErrNotEmpty]
// if it has some.
func (c *Client) RemoveQueue(ctx context.Context, queue string) error {
	_, err := c.state(ctx, http.MethodDelete, state.ANVL, c.ref(nil, "state", queue), nil, nil)
	return err
}

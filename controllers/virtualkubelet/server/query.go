// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"net/url"
	"strconv"
	"time"
)

// logQuery returns the log options in a query, which have the same names in the kubelet API and in the API server's,
// and drops all other parameters. It fails if a value is malformed. It does not set absent options, since tailLines=0,
// for example, returns no lines, but an absent tailLines all.
func logQuery(query url.Values) (url.Values, error) {
	isBool := func(s string) error { _, err := strconv.ParseBool(s); return err }
	isCount := func(s string) error { _, err := strconv.ParseUint(s, 10, 63); return err }
	isTime := func(s string) error { _, err := time.Parse(time.RFC3339, s); return err }
	checks := []struct {
		name  string
		check func(string) error
	}{
		{"follow", isBool}, {"previous", isBool}, {"timestamps", isBool},
		{"tailLines", isCount}, {"limitBytes", isCount}, {"sinceSeconds", isCount}, {"sinceTime", isTime},
	}
	result := url.Values{}
	for _, option := range checks {
		value := query.Get(option.name)
		if value == "" {
			continue
		}
		if err := option.check(value); err != nil {
			return nil, fmt.Errorf("invalid %s %q", option.name, value)
		}
		result.Set(option.name, value)
	}
	switch stream := query.Get("stream"); stream {
	case "", "All":
	case "Stdout", "Stderr":
		result.Set("stream", stream)
	default:
		return nil, fmt.Errorf("invalid stream %q: it must be All, Stdout or Stderr", stream)
	}
	return result, nil
}

// streamQuery returns the parameters of exec and attach that select streams and a terminal. Their names in the kubelet
// API are input, output, error and tty; it returns the names in the API server's. It fails if no stream is selected.
func streamQuery(query url.Values) (url.Values, error) {
	result := url.Values{}
	for kubelet, api := range map[string]string{"input": "stdin", "output": "stdout", "error": "stderr", "tty": "tty"} {
		if on := query.Get(kubelet); on == "1" || on == "true" {
			result.Set(api, "true")
		}
	}
	if !result.Has("stdin") && !result.Has("stdout") && !result.Has("stderr") {
		return nil, fmt.Errorf("at least one of input, output and error is required")
	}
	return result, nil
}

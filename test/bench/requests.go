// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"liqo.io/federation/test/harness"
)

// countRequests sums what a kube-apiserver's metrics say of requests for
// resources, without watches.
func countRequests(metrics string) (int64, error) {
	var sum int64
	for line := range strings.Lines(metrics) {
		labels, ok := strings.CutPrefix(line, "apiserver_request_total{")
		if !ok || strings.Contains(labels, `verb="WATCH"`) || strings.Contains(labels, `resource=""`) {
			continue
		}
		_, value, ok := strings.Cut(strings.TrimSpace(labels), "} ")
		if !ok {
			return 0, fmt.Errorf("line %q holds no value", line)
		}
		count, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("line %q: %w", line, err)
		}
		sum += int64(count)
	}
	return sum, nil
}

// request is what the audit log of a kube-apiserver tells of a request.
type request struct {
	cluster  string
	received time.Time
	user     string
	what     string
}

// audited reads the requests of both clusters from their audit logs: every
// one, also those that the aggregator passes on, but for watches and for what
// this program asks itself.
func (b *bench) audited(ctx context.Context) ([]request, error) {
	var all []request
	for _, cluster := range []*harness.Cluster{b.rome, b.milan} {
		path, err := b.auditLog(ctx, cluster)
		if err != nil {
			return nil, err
		}
		if err := flushed(ctx, cluster, path); err != nil {
			return nil, err
		}
		requests, err := readAudit(path, cluster.Name)
		if err != nil {
			return nil, err
		}
		all = append(all, requests...)
	}
	return all, nil
}

func (b *bench) auditLog(ctx context.Context, c *harness.Cluster) (string, error) {
	nodes, err := c.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "node-role.kubernetes.io/control-plane"})
	if err != nil {
		return "", err
	}
	if len(nodes.Items) != 1 {
		return "", fmt.Errorf("cluster %s has %d control plane nodes, want 1", c.Name, len(nodes.Items))
	}
	return filepath.Join(b.playground.Dir(), "logs", nodes.Items[0].Name, "audit.log"), nil
}

// flushed waits until a request that was just sent is in the audit log: then
// all before it are.
func flushed(ctx context.Context, c *harness.Cluster, path string) error {
	mark := string(uuid.NewUUID())
	if err := c.Kube.Discovery().RESTClient().Get().AbsPath("/version").Param("mark", mark).Do(ctx).Error(); err != nil {
		return err
	}
	return harness.Eventually(ctx, patience, "the audit log "+path+" to be written", func(context.Context) (bool, string, error) {
		found, err := endsWith(path, mark)
		return found, "not yet", err
	})
}

// endsWith looks for mark near the end of a file that grows.
func endsWith(path, mark string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	const near = 1 << 20
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	if _, err := f.Seek(max(0, info.Size()-near), io.SeekStart); err != nil {
		return false, err
	}
	tail, err := io.ReadAll(f)
	return bytes.Contains(tail, []byte(mark)), err
}

func readAudit(path, cluster string) ([]request, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var requests []request
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			// What follows the last line end is still being written.
			return requests, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		r, counts, err := parseAudit(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if counts {
			r.cluster = cluster
			requests = append(requests, r)
		}
	}
}

// auditEvent is the part of an audit.k8s.io/v1 Event that is read.
type auditEvent struct {
	Stage     string
	Verb      string
	UserAgent string
	User      struct{ Username string }
	ObjectRef *struct{ Resource, Subresource string }
	Received  metav1.MicroTime `json:"requestReceivedTimestamp"`
}

func parseAudit(line []byte) (request, bool, error) {
	var event auditEvent
	if err := json.Unmarshal(line, &event); err != nil {
		return request{}, false, fmt.Errorf("audit event: %w", err)
	}
	driver := filepath.Base(os.Args[0]) + "/"
	if event.Stage != "ResponseComplete" || event.Verb == "watch" || event.ObjectRef == nil || strings.HasPrefix(event.UserAgent, driver) {
		return request{}, false, nil
	}
	what := event.Verb + " " + event.ObjectRef.Resource
	if event.ObjectRef.Subresource != "" {
		what += "/" + event.ObjectRef.Subresource
	}
	return request{received: event.Received.Time, user: event.User.Username, what: what}, true, nil
}

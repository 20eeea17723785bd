// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

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
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// Request is a request from the audit log of a kube-apiserver.
type Request struct {
	// Cluster is the name of the cluster.
	Cluster string
	// Received is the time at which kube-apiserver received the request.
	Received time.Time
	// User and Groups identify the client.
	User   string
	Groups []string
	// Verb is the verb of the request, and Resource its target as "resource" or
	// "resource/subresource".
	Verb, Resource string
}

// Requests returns the requests in the cluster's audit log. The log exists only if the instance was
// started with --audit. It has all requests for resources, including those to aggregated APIs,
// except watches and requests by this program.
func (c *Cluster) Requests(ctx context.Context) ([]Request, error) {
	path, err := c.auditLog(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.flushed(ctx, path); err != nil {
		return nil, err
	}
	return readAudit(path, c.Name)
}

func (c *Cluster) auditLog(ctx context.Context) (string, error) {
	nodes, err := c.Kube.CoreV1().Nodes().List(ctx,
		metav1.ListOptions{LabelSelector: "node-role.kubernetes.io/control-plane"})
	if err != nil {
		return "", err
	}
	if len(nodes.Items) != 1 {
		return "", fmt.Errorf("cluster %s has %d control plane nodes, want 1", c.Name, len(nodes.Items))
	}
	return filepath.Join(c.playground.Dir(), "logs", nodes.Items[0].Name, "audit.log"), nil
}

// flushed sends a request and waits until it is in the audit log. The log then has all earlier
// requests.
func (c *Cluster) flushed(ctx context.Context, path string) error {
	mark := string(uuid.NewUUID())
	if err := c.Kube.Discovery().RESTClient().Get().AbsPath("/version").Param("mark", mark).Do(ctx).Error(); err != nil {
		return err
	}
	return Eventually(ctx, time.Minute, "the audit log "+path+" to be written",
		func(context.Context) (bool, string, error) {
			found, err := endsWith(path, mark)
			return found, "not yet", err
		})
}

// endsWith reports whether the last part of a growing file contains mark.
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

func readAudit(path, cluster string) ([]Request, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var requests []Request
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			// The last line may still be incomplete.
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
			r.Cluster = cluster
			requests = append(requests, r)
		}
	}
}

// auditEvent has the fields of an Event of audit.k8s.io/v1 that Requests reads.
type auditEvent struct {
	Stage     string
	Verb      string
	UserAgent string
	User      struct {
		Username string
		Groups   []string
	}
	ObjectRef *struct{ Resource, Subresource string }
	Received  metav1.MicroTime `json:"requestReceivedTimestamp"`
}

func parseAudit(line []byte) (Request, bool, error) {
	var event auditEvent
	if err := json.Unmarshal(line, &event); err != nil {
		return Request{}, false, fmt.Errorf("decoding audit event: %w", err)
	}
	driver := filepath.Base(os.Args[0]) + "/"
	if event.Stage != "ResponseComplete" || event.Verb == "watch" || event.ObjectRef == nil ||
		strings.HasPrefix(event.UserAgent, driver) {
		return Request{}, false, nil
	}
	resource := event.ObjectRef.Resource
	if event.ObjectRef.Subresource != "" {
		resource += "/" + event.ObjectRef.Subresource
	}
	return Request{Received: event.Received.Time, User: event.User.Username, Groups: event.User.Groups, Verb: event.Verb,
		Resource: resource}, true, nil
}

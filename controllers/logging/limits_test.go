// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

const (
	privateKey = "the-private-key-of-an-identity"
	bearer     = "the-token-of-this-process"
)

// lines is a log for concurrent loggers.
type lines struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (l *lines) Write(line []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.Write(line)
}

func (l *lines) String() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.String()
}

// useSecrets reads and writes Secrets as controllers do, at the highest verbosity, and
// returns the log.
func useSecrets(t *testing.T, prepare func(context.Context) context.Context) string {
	t.Helper()
	secret := corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "identity", Namespace: "liqo-peer-milan", ResourceVersion: "1"},
		Data:       map[string][]byte{"tls.key": []byte(privateKey)},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any = &secret
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/secrets") {
			answer = &corev1.SecretList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.Secret{secret}}
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(
		&rest.Config{
			Host: server.URL, BearerToken: bearer, ContentConfig: rest.ContentConfig{ContentType: "application/json"},
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	var log lines
	ctx, cancel := context.WithCancel(
		prepare(
			klog.NewContext(
				t.Context(),
				textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log), textlogger.Verbosity(10))),
			),
		),
	)
	secrets := client.CoreV1().Secrets(secret.Namespace)
	if _, err := secrets.Get(ctx, "identity", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := secrets.Update(ctx, &secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().Secrets().Informer()
	factory.StartWithContext(ctx)
	factory.WaitForCacheSync(ctx.Done())
	if len(informer.GetStore().List()) != 1 {
		t.Error("the cache is empty")
	}
	klog.FromContext(ctx).V(4).Info("Done", "foreignCluster", "milan")
	cancel()
	factory.Shutdown()
	return log.String()
}

func TestNoSecretsInLogs(t *testing.T) {
	shown := func(log string) bool {
		return strings.Contains(log, privateKey) ||
			strings.Contains(log, base64.StdEncoding.EncodeToString([]byte(privateKey)))
	}
	log := useSecrets(t, WithLimits)
	if shown(log) {
		t.Errorf("the log shows a private key:\n%s", log)
	}
	if strings.Contains(log, bearer) {
		t.Errorf("the log shows a token:\n%s", log)
	}
	if !strings.Contains(log, "foreignCluster") || !strings.Contains(log, "limits_test.go") {
		t.Errorf("the log lacks the requests:\n%s", log)
	}
	// Without the limit, the log has the Secrets.
	if !shown(useSecrets(t, func(ctx context.Context) context.Context { return ctx })) {
		t.Error("clients log no bodies any more, so nothing has to be done")
	}
}

func TestLongErrorsAndStringsAreShortened(t *testing.T) {
	var log lines
	ctx := WithLimits(klog.NewContext(t.Context(),
		textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log)))))
	long := strings.Repeat("x", 1<<20)
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "peer", long)
	logger.Info("Watch ended", "err", errors.New(long), "pod", "shop/db", "name", long)
	logger.Error(errors.New(long), "Failed to watch", "name", long)
	logger.Error(nil, "No error")
	logger.Info("Deleted", "pod", klog.KRef(long, long))
	if length := len(log.String()); length > 12*maxValue {
		t.Errorf("the log has %d bytes", length)
	}
	for _, want := range []string{`pod="shop/db"`, "Failed to watch", "No error", "…"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, log.String())
		}
	}
	if count := strings.Count(log.String(), "limits_test.go"); count != 4 {
		t.Errorf("%d of 4 entries name this file", count)
	}
}

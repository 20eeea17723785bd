// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// connectTimeout bounds each question that is asked before the server
	// starts.
	connectTimeout = 10 * time.Second

	authenticationConfigMap = "extension-apiserver-authentication"
	requestHeaderCAKey      = "requestheader-client-ca-file"
	clientCAKey             = "client-ca-file"
)

// cluster is the one that this server belongs to.
type cluster struct {
	config *rest.Config
	client kubernetes.Interface
	// id is the UID of the namespace kube-system.
	id string
	// clientCertificates is true when the cluster knows users by certificates.
	clientCertificates bool
}

// connect finds the cluster and makes sure that it lets the server do its
// work. Each of its errors says in one line what to do.
func (o *Options) connect(ctx context.Context) (*cluster, error) {
	config, err := o.clientConfig()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	c := &cluster{config: config, client: client}
	if err := c.identify(ctx); err != nil {
		return nil, err
	}
	return c, c.checkAuthentication(ctx)
}

func (o *Options) clientConfig() (*rest.Config, error) {
	var config *rest.Config
	var err error
	if o.Kubeconfig == "" {
		config, err = rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, errors.New("not running in a pod: say with --kubeconfig how to reach this cluster's Kubernetes API")
		}
		if err != nil {
			return nil, fmt.Errorf("reading the pod's service account: %w: set automountServiceAccountToken, or use --kubeconfig", err)
		}
	} else {
		config, err = clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("--kubeconfig %s: %w", o.Kubeconfig, err)
		}
	}
	// Priority and Fairness in kube-apiserver limits us better than a bucket
	// here, which would make everybody's requests wait for reviews.
	config.QPS = -1
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.UserAgent = rest.DefaultKubernetesUserAgent()
	return config, nil
}

func (c *cluster) identify(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	system, err := c.client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	switch {
	case err == nil:
		c.id = string(system.UID)
		return nil
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: reading the cluster's id from namespace %s: %w: bind ClusterRole federation-apiserver to it", c.config.Host, metav1.NamespaceSystem, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: refuses the credentials of this server: renew its service account token or kubeconfig", c.config.Host)
	default:
		return fmt.Errorf("%s: cannot reach this cluster's Kubernetes API: %w: check that it runs and that its address and certificate authority are right", c.config.Host, oneLine(err))
	}
}

// checkAuthentication makes sure that users can be told apart. Without the
// front proxy's certificate authority everybody who comes through the
// aggregator would be a stranger, so the server does not even start.
func (c *cluster) checkAuthentication(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	const where = "ConfigMap " + metav1.NamespaceSystem + "/" + authenticationConfigMap
	configMap, err := c.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, authenticationConfigMap, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s is missing: kube-apiserver makes it when it runs with --requestheader-client-ca-file: turn its aggregation layer on", where)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: %w: bind Role extension-apiserver-authentication-reader in %s to it", where, err, metav1.NamespaceSystem)
	case err != nil:
		return fmt.Errorf("reading %s: %w", where, oneLine(err))
	case strings.TrimSpace(configMap.Data[requestHeaderCAKey]) == "":
		return fmt.Errorf("%s has no %s: run kube-apiserver with --requestheader-client-ca-file: turn its aggregation layer on", where, requestHeaderCAKey)
	}
	c.clientCertificates = configMap.Data[clientCAKey] != ""
	return nil
}

// bundleOf is what invitations say this cluster is verified with: the contents
// of a file, and without one what it is verified with here.
func bundleOf(file string, config *rest.Config) ([]byte, error) {
	if file == "" {
		if len(config.CAData) > 0 {
			return config.CAData, nil
		}
		file = config.CAFile
	}
	if file == "" {
		return nil, nil
	}
	bundle, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate authorities of --advertised-server: %w", err)
	}
	return bundle, nil
}

// oneLine keeps an error that others wrote from breaking the line.
func oneLine(err error) error {
	if s := err.Error(); strings.ContainsAny(s, "\r\n") {
		return errors.New(strings.Join(strings.Fields(s), " "))
	}
	return err
}

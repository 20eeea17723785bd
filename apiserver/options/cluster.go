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
	// connectTimeout is the timeout of each request that is sent before the server starts.
	connectTimeout = 10 * time.Second

	authenticationConfigMap = "extension-apiserver-authentication"
	requestHeaderCAKey      = "requestheader-client-ca-file"
	clientCAKey             = "client-ca-file"
)

// cluster is the Kubernetes cluster that this API server extends.
type cluster struct {
	config *rest.Config
	client kubernetes.Interface
	// id is the cluster ID, the UID of the namespace kube-system.
	id string
	// clientCertificates is true if kube-apiserver authenticates users by client certificates.
	clientCertificates bool
}

// connect connects to the cluster and returns it. It fails if kube-apiserver cannot be reached or does
// not grant the permissions that the server requires. Errors end with the remedy if one is known.
func (o *Options) connect(ctx context.Context) (*cluster, error) {
	config, err := o.clientConfig()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client for %s: %w: check the certificates in --kubeconfig", config.Host, err)
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
			return nil, errors.New("not running in a pod: set --kubeconfig to a kubeconfig file of this cluster")
		}
		if err != nil {
			return nil, fmt.Errorf("reading the pod's service account: %w: set automountServiceAccountToken, "+
				"or use --kubeconfig", err)
		}
	} else {
		config, err = clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("--kubeconfig %s: %w", o.Kubeconfig, err)
		}
	}
	// A negative QPS disables the client-side rate limit, which would delay the requests of all users
	// by delaying their access reviews. Priority and Fairness of kube-apiserver limits the reviews.
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
		return fmt.Errorf("%s: reading the cluster ID from namespace %s: %w: "+
			"bind ClusterRole federation-apiserver to this user",
			c.config.Host, metav1.NamespaceSystem, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: refuses the credentials of this server: renew its service account token or kubeconfig",
			c.config.Host)
	default:
		return fmt.Errorf("%s: cannot reach this cluster's Kubernetes API: %w: "+
			"check that it runs, its address and its certificate authority", c.config.Host, oneLine(err))
	}
}

// checkAuthentication returns an error unless the cluster has the certificate authority of the front
// proxy. Without it, the server could not authenticate any request that kube-apiserver forwards.
func (c *cluster) checkAuthentication(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	const where = "ConfigMap " + metav1.NamespaceSystem + "/" + authenticationConfigMap
	configMaps := c.client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	configMap, err := configMaps.Get(ctx, authenticationConfigMap, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s is missing: kube-apiserver creates it with --requestheader-client-ca-file: "+
			"enable its aggregation layer", where)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: %w: bind Role extension-apiserver-authentication-reader in %s to this user", where, err,
			metav1.NamespaceSystem)
	case err != nil:
		return fmt.Errorf("reading %s: %w: check that this cluster's Kubernetes API runs", where, oneLine(err))
	case strings.TrimSpace(configMap.Data[requestHeaderCAKey]) == "":
		return fmt.Errorf("%s has no %s: enable the aggregation layer of kube-apiserver with "+
			"--requestheader-client-ca-file", where, requestHeaderCAKey)
	}
	c.clientCertificates = configMap.Data[clientCAKey] != ""
	return nil
}

// bundleOf returns the certificate authorities for invitations, PEM encoded: the contents of a file, or the
// certificate authorities of config if file is empty. It returns nil if config has none, either.
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
		return nil, fmt.Errorf("reading the certificate authorities for invitations: %w", err)
	}
	return bundle, nil
}

// oneLine returns an error whose text has no line breaks.
func oneLine(err error) error {
	if s := err.Error(); strings.ContainsAny(s, "\r\n") {
		return errors.New(strings.Join(strings.Fields(s), " "))
	}
	return err
}

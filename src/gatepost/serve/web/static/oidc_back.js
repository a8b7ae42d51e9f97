// The provider has led here. This page leads on, so that the browser sends its cookie along.
location.replace(document.getElementById("next").href);
